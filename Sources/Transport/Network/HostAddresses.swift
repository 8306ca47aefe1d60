import NIOCore

/// Resolves a host name, for showing the result.
package enum HostAddresses {
    /// Why there are no addresses, in words.
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    /// A host's addresses from the system's resolver, in its order. Blocks.
    package static func resolve(_ host: String, port: Int) throws(Failure) -> [String] {
        do { return try SystemResolver.resolve(host: host, port: port).compactMap(\.ipAddress) } catch {
            throw Failure(description: (error as? ResolverError)?.text ?? "\(error)")
        }
    }
}
