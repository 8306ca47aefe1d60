/// Formats a number of bytes for people.
enum ByteText {
    static func of(_ bytes: Int) -> String {
        bytes < 1 << 10 ? "\(bytes) bytes" : bytes < 10 << 20 ? "\((bytes + 1023) >> 10) KiB" : "\(bytes >> 20) MiB"
    }
}
