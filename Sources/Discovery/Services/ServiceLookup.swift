import Environment
import NIOCore

/// Queries the local network through this machine's Avahi.
package enum ServiceLookup {
    /// `discover_services`: announcements that one search keeps, of which a name has one for each interface and version of IP; any more are ignored.
    static let mostServices = 1000

    /// The listener with that name.
    ///
    /// - Throws: ``DiscoveryError/notFound(_:)`` if nobody answers to the name.
    package static func find(_ name: String, group: any EventLoopGroup) async throws(DiscoveryError) -> FoundService {
        let bus = try await BusConnection.open(group: group)
        defer { bus.close() }
        do throws(DiscoveryError) { return try await resolve(name, bus) } catch {
            // Avahi's error for a name that nobody answers to.
            if case .refused("org.freedesktop.Avahi.TimeoutError", _) = error { throw .notFound(name) }
            throw error
        }
    }

    /// Resolves with both versions of IP; if only one of them works, the other fails after Avahi's timeout, and is not waited for.
    private static func resolve(_ name: String, _ bus: BusConnection, interface: Int32 = Avahi.any, protocol version: Int32 = Avahi.any) async throws(DiscoveryError)
        -> FoundService
    {
        let results = await withTaskGroup(of: Result<FoundService, DiscoveryError>.self) { group in
            for family in [Avahi.inet, Avahi.inet6] {
                group.addTask {
                    do throws(DiscoveryError) {
                        let body = try await bus.call(
                            Avahi.call(
                                "ResolveService", "iisssiu",
                                [.int32(interface), .int32(version), .text(name), .text(FoundService.type), .text("local"), .int32(family), .number(0)]))
                        guard let found = FoundService(resolved: body) else { throw .malformed }
                        return .success(found)
                    } catch { return .failure(error) }
                }
            }
            var all: [Result<FoundService, DiscoveryError>] = []
            for await result in group {
                all.append(result)
                // IPv4 works most often, and a link-local IPv4 address does not need an interface.
                if case .success(let found) = result, !(found.addresses.first?.contains(":") ?? true) { break }
            }
            group.cancelAll()
            return all
        }
        var found: FoundService?
        var failure = DiscoveryError.notFound(name)
        for result in results {
            switch result {
            case .success(let one):
                if found == nil { found = one } else { found?.add(one) }
            case .failure(let error): failure = error
            }
        }
        guard let found else { throw failure }
        return found
    }

    /// Everything that is announced, collected for some seconds.
    package static func browse(seconds: Int, group: any EventLoopGroup, time: any TimeSource) async throws(DiscoveryError) -> [FoundService] {
        let bus = try await BusConnection.open(group: group)
        defer { bus.close() }
        try await Avahi.listen(on: bus)
        _ = try await bus.call(
            Avahi.call(
                "ServiceBrowserNew", "iissu",
                [.int32(Avahi.any), .int32(Avahi.any), .text(FoundService.type), .text("local"), .number(0)]))
        let end = Task {
            try? await time.sleep(seconds: seconds)
            bus.close()
        }
        defer { end.cancel() }
        return await collect(bus)
    }

    private static func collect(_ bus: BusConnection) async -> [FoundService] {
        await withTaskGroup(of: FoundService?.self) { group in
            var heard = HeardNames()
            // Ends when the time is over, because the connection is closed then.
            for await signal in bus.signals where signal.interface == Avahi.browser && heard.count < mostServices {
                guard signal.body.count >= 3, let interface = signal.body[0].int32, let version = signal.body[1].int32, let name = signal.body[2].text else {
                    continue
                }
                switch signal.member {
                case "ItemNew":
                    let isLocal = (signal.body.last?.number ?? 0) & Avahi.isLocal != 0
                    guard heard.add(name, interface: interface, version: version, isLocal: isLocal) else { continue }
                    group.addTask { try? await resolve(name, bus, interface: interface, protocol: version) }
                case "ItemRemove": heard.remove(name)
                default: break
                }
            }
            var found: [FoundService] = []
            for await case let service? in group { found.append(service) }
            return heard.services(found)
        }
    }
}
