#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif
import NIOCore

/// The folder of vectors, beside this one.
enum Vectors {
    struct Missing: Error {
        var path: String
    }

    static var folder: String {
        let parts = #filePath.split(separator: "/", omittingEmptySubsequences: false)
        return parts.dropLast(3).joined(separator: "/") + "/Vectors"
    }

    static func read(_ name: String) throws -> [UInt8] {
        let path = folder + "/" + name
        guard let file = fopen(path, "rb") else { throw Missing(path: path) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&chunk, 1, chunk.count, file), count > 0 { bytes.append(contentsOf: chunk[..<count]) }
        return bytes
    }

    /// Names of the capture files, relative to `folder`.
    static func captures() throws -> [String] {
        try ["captures", "captures/3.2"].flatMap { under in
            guard let listing = opendir(folder + "/" + under) else { throw Missing(path: folder + "/" + under) }
            defer { closedir(listing) }
            var names: [String] = []
            while let entry = readdir(listing) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                if name.hasSuffix(".jsonl") { names.append(under + "/" + name) }
            }
            return names.sorted()
        }
    }
}

func buffer(hex: String) -> ByteBuffer {
    func digit(_ byte: UInt8) -> UInt8 { byte < 0x3a ? byte - 0x30 : (byte | 0x20) - 0x57 }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(hex.utf8.count / 2)
    var high: UInt8?
    for byte in hex.utf8 {
        if let first = high {
            bytes.append(first << 4 | digit(byte))
            high = nil
        } else {
            high = digit(byte)
        }
    }
    return ByteBuffer(bytes: bytes)
}

func hex(_ buffer: ByteBuffer) -> String {
    var text = ""
    for byte in buffer.readableBytesView {
        if byte < 16 { text += "0" }
        text += String(byte, radix: 16)
    }
    return text
}
