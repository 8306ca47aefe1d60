import Environment
import Glibc

/// Tells systemd the agent's state (sd_notify(3)): ready, reloading, stopping, and alive. Without systemd it does nothing.
struct SupervisorNotice: Sendable {
    /// The path of a datagram socket; an abstract one begins with `@`. Nil without systemd.
    private let socketPath: String?
    /// Nanoseconds without a sign of life after which systemd kills the agent; nil if there is no watchdog.
    let watchdog: UInt64?
    private let time: any TimeSource

    /// - Parameter variable: looks up environment variables.
    init(time: any TimeSource, variable: (String) -> String? = { name in getenv(name).map { String(cString: $0) } }) {
        self.time = time
        let path = variable("NOTIFY_SOCKET")
        socketPath = path.flatMap { $0.hasPrefix("/") || $0.hasPrefix("@") ? $0 : nil }
        // If it names another process, the variables are not meant for this one.
        let isOurs = variable("WATCHDOG_PID").map { $0 == "\(getpid())" } ?? true
        watchdog = isOurs ? variable("WATCHDOG_USEC").flatMap { UInt64($0) }.map { $0 * 1_000 } : nil
    }

    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }
    func reloading() { send("RELOADING=1\nMONOTONIC_USEC=\(time.monotonicNanoseconds() / 1_000)\nSTATUS=reads its configuration") }
    func stopping() { send("STOPPING=1\nSTATUS=stops") }
    /// Does not wait: if one is lost, the next one makes up for it.
    func alive() { send("WATCHDOG=1", waits: false) }

    /// `systemctl reload` waits for the end of a reload, so that message must not be lost because the socket was briefly full.
    private static let patience = timeval(tv_sec: 1, tv_usec: 0)

    private func send(_ text: String, waits: Bool = true) {
        guard let socketPath else { return }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var path = Array(socketPath.utf8)
        guard path.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        if path.first == UInt8(ascii: "@") { path[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        // An abstract name ends where the length says, not at a NUL.
        let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path).map { $0 + path.count } ?? 0)
        let bytes = Array(text.utf8)
        var patience = Self.patience
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let flags = Int32(MSG_NOSIGNAL) | (waits ? 0 : Int32(MSG_DONTWAIT))
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bytes.withUnsafeBytes { sendto(descriptor, $0.baseAddress, $0.count, flags, address, length) }
            }
        }
    }
}
