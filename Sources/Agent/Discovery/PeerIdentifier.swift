import Encodings
import Environment
import Glibc

/// Distinguishes this agent from others on the local network: generated randomly once, and kept in the data folder. It proves nothing.
package enum PeerIdentifier {
    static let digits = 32

    /// - Returns: nil if it can neither be read nor created; the announcement then goes without it.
    static func current(data: String, _ random: any RandomSource) -> String? {
        let path = "\(data)/peer.id"
        if let stored = read(path) { return stored }
        let made = Hex.encode(random.bytes(digits / 2))
        guard let descriptor = try? RegularFile.open(path, O_WRONLY | O_CREAT | O_TRUNC) else { return nil }
        defer { close(descriptor) }
        let line = Array("\(made)\n".utf8)
        return write(descriptor, line, line.count) == line.count ? made : nil
    }

    /// The existing identifier; nil if there is none, or it cannot be read.
    package static func made(data: String) -> String? { read("\(data)/peer.id") }

    private static func read(_ path: String) -> String? {
        guard let descriptor = try? RegularFile.open(path, O_RDONLY) else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: digits)
        guard Glibc.read(descriptor, &bytes, digits) == digits, Hex.decode(String(decoding: bytes, as: UTF8.self)) != nil else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}
