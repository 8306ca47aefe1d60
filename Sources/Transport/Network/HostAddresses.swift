import NIOCore

/// Looking a host up, for who wants to tell of it.
package enum HostAddresses {
    /// Why there are none, in words.
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    /// The addresses of a host by the system's resolver, in its order. Blocks.
    package static func resolve(_ host: String, port: Int) throws(Failure) -> [String] {
        do { return try SystemResolver.resolve(host: host, port: port).compactMap(\.ipAddress) } catch {
            throw Failure(description: (error as? ResolverError)?.text ?? "\(error)")
        }
    }
}
