import Glibc
import Synchronization
import TestRandomness
import TestSupport

/// Two serial devices (pseudo-terminals) and a cable between them that loses, changes and invents bytes, from a seed.
final class NoisyCable: Sendable {
    /// The paths of the devices.
    let ends: (String, String)
    private let cable: Cable

    private final class Cable: Sendable {
        let spoilt = Atomic(0)
        let isOver = Atomic(false)
    }

    /// - Parameter oneIn: of so many bytes one is spoilt.
    init(seed: UInt64, oneIn rate: Int) throws {
        let (one, other) = (try Self.terminal(), try Self.terminal())
        ends = (one.path, other.path)
        let cable = Cable()
        self.cable = cable
        // The slaves are held open, so that a side that closes its device does not hang up.
        let descriptors = [one.master, other.master, one.slave, other.slave]
        Task { try await offThread { Self.run(descriptors, SeededGenerator(seed: seed), rate, cable) } }
    }

    /// Bytes that did not arrive as they were sent.
    var spoilt: Int { cable.spoilt.load(ordering: .relaxed) }

    deinit { cable.isOver.store(true, ordering: .relaxed) }

    private static func run(_ descriptors: [Int32], _ random: SeededGenerator, _ rate: Int, _ cable: Cable) {
        var random = random
        defer { for descriptor in descriptors { close(descriptor) } }
        while !cable.isOver.load(ordering: .relaxed) {
            var ready = descriptors.prefix(2).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&ready, 2, 100) > 0 else { continue }
            for (from, to) in [(0, 1), (1, 0)] where ready[from].revents & Int16(POLLIN) != 0 {
                var buffer = [UInt8](repeating: 0, count: 1024)
                let count = read(descriptors[from], &buffer, buffer.count)
                guard count > 0 else { continue }
                var bytes: [UInt8] = []
                for byte in buffer.prefix(count) {
                    guard Int.random(in: 0..<rate, using: &random) == 0 else {
                        bytes.append(byte)
                        continue
                    }
                    cable.spoilt.add(1, ordering: .relaxed)
                    switch Int.random(in: 0..<3, using: &random) {
                    case 0: break
                    case 1: bytes.append(byte ^ 0x10)
                    default: bytes += [byte, UInt8.random(in: 0...255, using: &random)]
                    }
                }
                var rest = bytes[...]
                while !rest.isEmpty, !cable.isOver.load(ordering: .relaxed) {
                    let written = rest.withUnsafeBytes { write(descriptors[to], $0.baseAddress, $0.count) }
                    if written > 0 {
                        rest = rest.dropFirst(written)
                    } else {
                        var wait = pollfd(fd: descriptors[to], events: Int16(POLLOUT), revents: 0)
                        // What a side does not read is lost, as on a cable.
                        if poll(&wait, 1, 200) == 0 { rest = [] }
                    }
                }
            }
        }
    }

    private static func terminal() throws -> (path: String, master: Int32, slave: Int32) {
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
        var locked: Int32 = 0
        var number: UInt32 = 0
        // TIOCSPTLCK and TIOCGPTN of Linux.
        guard master >= 0, ioctl(master, 0x4004_5431, &locked) == 0, ioctl(master, 0x8004_5430, &number) == 0 else {
            throw SupportError("no terminal: \(String(cString: strerror(errno)))")
        }
        let path = "/dev/pts/\(number)"
        let slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard slave >= 0 else { throw SupportError("\(path): \(String(cString: strerror(errno)))") }
        return (path, master, slave)
    }
}
