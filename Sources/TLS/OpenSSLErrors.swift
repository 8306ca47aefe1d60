import COpenSSL

/// OpenSSL's per-thread error queue.
enum OpenSSLErrors {
    struct Entry: Equatable {
        var library: Int32
        var reason: Int32
        var text: String
    }

    static func clear() { ERR_clear_error() }

    /// Removes and returns all entries, oldest first: the first one is closest to the cause.
    static func drain() -> [Entry] {
        var entries: [Entry] = []
        while true {
            let number = ERR_get_error()
            guard number != 0 else { return entries }
            let text = ERR_reason_error_string(number).map { String(cString: $0) } ?? "OpenSSL error \(String(number, radix: 16))"
            entries.append(Entry(library: nightjar_error_library(number), reason: nightjar_error_reason(number), text: text))
        }
    }

    /// The reasons in words, each once; `fallback` if there are none.
    static func text(otherwise fallback: String) -> String { text(drain(), otherwise: fallback) }

    static func text(_ entries: [Entry], otherwise fallback: String) -> String {
        var words: [String] = []
        for entry in entries where !words.contains(entry.text) && words.count < 3 { words.append(entry.text) }
        return words.isEmpty ? fallback : words.joined(separator: ", ")
    }
}

/// A memory BIO that is freed with its scope.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// An empty one, for writing.
    init() {
        guard let pointer = BIO_new(BIO_s_mem()) else { fatalError("out of memory for a BIO") }
        self.pointer = pointer
    }

    /// Reads from `bytes`, which must outlive it.
    init(reading bytes: UnsafeRawBufferPointer) {
        guard let pointer = BIO_new_mem_buf(bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 1), Int32(clamping: bytes.count)) else {
            fatalError("out of memory for a BIO")
        }
        self.pointer = pointer
    }

    deinit { BIO_free(pointer) }

    /// Passes the written bytes to a closure.
    func withContents<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        var data: UnsafePointer<UInt8>?
        let count = nightjar_bio_contents(pointer, &data)
        return body(UnsafeRawBufferPointer(start: data, count: count))
    }

    var bytes: [UInt8] { withContents { Array($0) } }
    var text: String { withContents { String(decoding: $0, as: UTF8.self) } }
}
