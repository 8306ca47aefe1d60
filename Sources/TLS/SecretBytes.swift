import COpenSSL

/// The bytes of a secret: a passphrase, the text of a key file. Wiped when the last reference is released.
package final class SecretBytes: Sendable, CustomStringConvertible, CustomReflectable {
    // Unsafe only in name: written in init, before it is shared, and wiped in deinit.
    private nonisolated(unsafe) let storage: UnsafeMutableRawBufferPointer
    package let count: Int

    /// - Parameter fill: writes the secret and returns its length.
    package init<E: Error>(capacity: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(E) -> Int) throws(E) {
        let capacity = max(0, capacity)
        storage = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity + 1, alignment: 16)
        do throws(E) {
            let filled = try fill(UnsafeMutableRawBufferPointer(rebasing: storage[..<capacity]))
            count = min(max(0, filled), capacity)
            // Followed by a NUL, for OpenSSL functions that need one.
            storage[count] = 0
        } catch {
            OPENSSL_cleanse(storage.baseAddress, storage.count)
            storage.deallocate()
            throw error
        }
    }

    package convenience init(_ text: String) {
        self.init(capacity: text.utf8.count) { room in
            room.copyBytes(from: text.utf8)
            return text.utf8.count
        }
    }

    /// A copy; the caller has to wipe the source.
    package convenience init(copying bytes: UnsafeRawBufferPointer) {
        self.init(capacity: bytes.count) { room in
            room.copyMemory(from: bytes)
            return bytes.count
        }
    }

    deinit {
        OPENSSL_cleanse(storage.baseAddress, storage.count)
        storage.deallocate()
    }

    package func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try body(UnsafeRawBufferPointer(rebasing: storage[..<count]))
    }

    /// With a NUL at the end.
    func withCString<R, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E) -> R {
        guard let start = storage.baseAddress else { preconditionFailure("storage has an address") }
        return try body(UnsafePointer(start.assumingMemoryBound(to: CChar.self)))
    }

    package var description: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
