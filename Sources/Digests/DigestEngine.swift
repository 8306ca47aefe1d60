import COpenSSL
import Glibc

/// One digest algorithm of libcrypto. The method is fetched once, because EVP_MD_fetch searches the providers under a lock each time, and each thread
/// keeps one context, because allocating one costs more than hashing a short text.
///
/// Unchecked: OpenSSL's method is read-only, and each thread has its own context.
struct DigestEngine: @unchecked Sendable {
    // Unchecked: an EVP_MD is immutable and reference-counted by OpenSSL, and a pthread key is
    // a number; contexts never leave the thread that made them.
    let method: OpaquePointer
    let byteCount: Int
    private let contextKey: pthread_key_t

    static let sha1 = DigestEngine(name: "SHA1")
    static let sha256 = DigestEngine(name: "SHA256")
    static let md5 = DigestEngine(name: "MD5")

    private init(name: String) {
        // Does not depend on input from outside: without these digests nothing in this program can work.
        guard let method = EVP_MD_fetch(nil, name, nil) else {
            fatalError("OpenSSL offers no \(name): check its configuration (openssl.cnf) and providers")
        }
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { EVP_MD_CTX_free(OpaquePointer($0)) }
        guard status == 0 else { fatalError("no thread-specific storage for \(name): error \(status)") }
        self.method = method
        byteCount = Int(EVP_MD_get_size(method))
        contextKey = key
    }

    /// This thread's context, reset for a new digest.
    @inline(__always)
    func startThreadContext() -> OpaquePointer {
        if let existing = pthread_getspecific(contextKey) {
            let context = OpaquePointer(existing)
            start(context)
            return context
        }
        let context = makeContext()
        pthread_setspecific(contextKey, UnsafeRawPointer(context))
        start(context)
        return context
    }

    func makeContext() -> OpaquePointer {
        guard let context = EVP_MD_CTX_new() else { fatalError("out of memory for a digest context") }
        return context
    }

    @inline(__always)
    func start(_ context: OpaquePointer) {
        guard EVP_DigestInit_ex2(context, method, nil) == 1 else { fatalError("OpenSSL refused to start a digest") }
    }

    @inline(__always)
    func update(_ context: OpaquePointer, _ bytes: UnsafeRawBufferPointer) {
        guard EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1 else { fatalError("OpenSSL refused digest input") }
    }

    @inline(__always)
    func finish(_ context: OpaquePointer, into out: UnsafeMutableRawBufferPointer) {
        precondition(out.count >= byteCount, "room for \(byteCount) digest bytes is needed")
        guard EVP_DigestFinal_ex(context, out.baseAddress?.assumingMemoryBound(to: UInt8.self), nil) == 1 else {
            fatalError("OpenSSL refused to finish a digest")
        }
    }

    func hash(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer) {
        let context = startThreadContext()
        update(context, first)
        if second.count > 0 { update(context, second) }
        finish(context, into: out)
    }

    func hash(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: byteCount) { out, count in
            hash(bytes, UnsafeRawBufferPointer(start: nil, count: 0), into: UnsafeMutableRawBufferPointer(out))
            count = byteCount
        }
    }
}
