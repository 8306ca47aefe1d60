import Encodings
import Environment
import Glibc

/// What tells this agent from others on the local network: chance made it once, and the data folder keeps it. It proves nothing.
package enum PeerIdentifier {
    private static let digits = 32

    /// - Returns: nil where it can neither be read nor made: an announcement goes without it.
    static func current(data: String, _ random: any RandomSource) -> String? {
        let path = "\(data)/peer.id"
        if let stored = read(path) { return stored }
        let made = Hex.encode(random.bytes(digits / 2))
        guard let descriptor = try? RegularFile.open(path, O_WRONLY | O_CREAT | O_TRUNC) else { return nil }
        defer { close(descriptor) }
        let line = Array("\(made)\n".utf8)
        return write(descriptor, line, line.count) == line.count ? made : nil
    }

    /// The one that was made; nil where there is none, or it cannot be read.
    package static func made(data: String) -> String? { read("\(data)/peer.id") }

    private static func read(_ path: String) -> String? {
        guard let descriptor = try? RegularFile.open(path, O_RDONLY) else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: digits)
        guard Glibc.read(descriptor, &bytes, digits) == digits, Hex.decode(String(decoding: bytes, as: UTF8.self)) != nil else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}
