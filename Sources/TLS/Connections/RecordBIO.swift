import COpenSSL
import NIOCore

/// OpenSSL's interface to the socket: a BIO that reads from one buffer and writes to another.
///
/// OpenSSL's own memory BIOs would copy every byte once more. Confined to one event loop; must outlive the `BIO`.
final class RecordBIO {
    /// Data from the socket, waiting for OpenSSL.
    var inbound = ByteBuffer()
    /// What OpenSSL wants to send.
    var outbound = ByteBuffer()

    /// The `BIO`, whose reference the caller owns; nil if memory is short.
    func makeBIO() -> OpaquePointer? {
        guard let bio = BIO_new(Self.method.pointer) else { return nil }
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        return bio
    }

    func append(_ bytes: ByteBuffer) {
        if inbound.readableBytes == 0 { inbound = bytes } else { inbound.writeImmutableBuffer(bytes) }
    }

    /// Removes and returns what OpenSSL wrote.
    func takeOutbound() -> ByteBuffer {
        let taken = outbound
        outbound = ByteBuffer()
        return taken
    }

    /// Unchecked: created once, then only read.
    private struct Method: @unchecked Sendable {
        // Unchecked: written once, before anybody uses it, and only read by OpenSSL from then on.
        let pointer: OpaquePointer
    }

    private static let method: Method = {
        // External input cannot trigger this: without memory for it nothing can work.
        guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "nightjar records") else {
            fatalError("out of memory for a BIO method")
        }
        BIO_meth_set_read_ex(method) { bio, target, room, count in RecordBIO.read(bio, target, room, count) }
        BIO_meth_set_write_ex(method) { bio, source, length, count in RecordBIO.write(bio, source, length, count) }
        BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return Method(pointer: method)
    }()

    private static func owner(_ bio: OpaquePointer?) -> RecordBIO? {
        BIO_get_data(bio).map { Unmanaged<RecordBIO>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func read(
        _ bio: OpaquePointer?, _ target: UnsafeMutablePointer<CChar>?, _ room: Int, _ count: UnsafeMutablePointer<Int>?
    ) -> Int32 {
        guard let owner = owner(bio), let target, let count else { return 0 }
        let length = min(room, owner.inbound.readableBytes)
        count.pointee = length
        nightjar_bio_retry(bio, length == 0 ? 1 : 0)
        guard length > 0 else { return 0 }
        owner.inbound.readWithUnsafeReadableBytes { source in
            UnsafeMutableRawPointer(target).copyMemory(from: source.baseAddress ?? UnsafeRawPointer(target), byteCount: length)
            return length
        }
        // Releases the socket's buffer as soon as it has been read.
        if owner.inbound.readableBytes == 0 { owner.inbound = ByteBuffer() }
        return 1
    }

    private static func write(_ bio: OpaquePointer?, _ source: UnsafePointer<CChar>?, _ length: Int, _ count: UnsafeMutablePointer<Int>?) -> Int32 {
        guard let owner = owner(bio), let count else { return 0 }
        nightjar_bio_retry(bio, 0)
        if let source { owner.outbound.writeBytes(UnsafeRawBufferPointer(start: source, count: length)) }
        count.pointee = length
        return 1
    }
}
