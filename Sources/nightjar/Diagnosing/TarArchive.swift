/// An archive in the POSIX format (ustar), which every tar can read.
struct TarArchive {
    private static let block = 512
    private var bytes: [UInt8] = []
    private let time: Int64

    /// - Parameter time: of its files, in seconds since 1970.
    init(time: Int64) { self.time = time }

    /// - Parameter name: up to 100 bytes.
    mutating func add(_ name: String, _ contents: [UInt8]) {
        var header = [UInt8](repeating: 0, count: Self.block)
        func put(_ text: String, at offset: Int, width: Int) { header.replaceSubrange(offset..<offset + min(width, text.utf8.count), with: text.utf8.prefix(width)) }
        func octal(_ number: Int64, _ digits: Int) -> String {
            let text = String(number, radix: 8)
            return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
        }
        put(name, at: 0, width: 100)
        put(octal(0o600, 7), at: 100, width: 7)
        put(octal(0, 7), at: 108, width: 7)
        put(octal(0, 7), at: 116, width: 7)
        put(octal(Int64(contents.count), 11), at: 124, width: 11)
        put(octal(time, 11), at: 136, width: 11)
        put("        ", at: 148, width: 8)
        put("0", at: 156, width: 1)
        put("ustar", at: 257, width: 5)
        put("00", at: 263, width: 2)
        // The checksum is computed with blanks in its own field.
        put(octal(header.reduce(0) { $0 + Int64($1) }, 6), at: 148, width: 6)
        header[154] = 0
        bytes += header + contents
        bytes += [UInt8](repeating: 0, count: (Self.block - contents.count % Self.block) % Self.block)
    }

    func finished() -> [UInt8] { bytes + [UInt8](repeating: 0, count: 2 * Self.block) }
}
