import Glibc
import Interfaces

/// A terminal device in raw mode.
enum SerialDevice {
    /// The speeds in bits per second that termios supports, with its constants.
    static let speeds: [Int: speed_t] = [
        300: speed_t(B300), 600: speed_t(B600), 1200: speed_t(B1200), 2400: speed_t(B2400), 4800: speed_t(B4800), 9600: speed_t(B9600),
        19_200: speed_t(B19200), 38_400: speed_t(B38400), 57_600: speed_t(B57600), 115_200: speed_t(B115200), 230_400: speed_t(B230400),
        460_800: speed_t(B460800), 500_000: speed_t(B500000), 576_000: speed_t(B576000), 921_600: speed_t(B921600),
        1_000_000: speed_t(B1000000), 1_500_000: speed_t(B1500000), 2_000_000: speed_t(B2000000), 3_000_000: speed_t(B3000000), 4_000_000: speed_t(B4000000),
    ]

    /// Opens it for exclusive use. Does not wait for a carrier.
    ///
    /// - Throws: ``ReplicationError`` of the network domain.
    static func open(_ device: String, speed: Int) throws -> CInt {
        guard let constant = speeds[speed] else {
            throw ReplicationError(domain: .network, code: ReplicationError.NetworkCode.unknownInterface.rawValue, message: "\(device): no such speed: \(speed)")
        }
        let descriptor = Glibc.open(device, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(device, "cannot be opened", errno) }
        do {
            var settings = termios()
            guard tcgetattr(descriptor, &settings) == 0 else { throw failure(device, "is not a serial device", errno) }
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw failure(device, "is used by another program or endpoint", errno) }
            cfmakeraw(&settings)
            settings.c_cflag |= tcflag_t(CLOCAL | CREAD)
            settings.c_cflag &= ~tcflag_t(CSTOPB)
            guard cfsetispeed(&settings, constant) == 0, cfsetospeed(&settings, constant) == 0, tcsetattr(descriptor, TCSANOW, &settings) == 0 else {
                throw failure(device, "does not support \(speed) bits a second", errno)
            }
            // Data in the buffers belongs to an earlier connection.
            tcflush(descriptor, TCIOFLUSH)
            return descriptor
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    private static func failure(_ device: String, _ what: String, _ code: CInt) -> ReplicationError {
        // Transient: a device may be plugged in or released by the next attempt.
        ReplicationError(network: .hostDown, message: "serial:\(device) \(what): \(NetworkErrors.systemText(code))")
    }
}
