import Environment
import NIOCore
import Synchronization

/// Queries the local network through this machine's Avahi.
package enum ServiceLookup {
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

    /// The service with one of its addresses.
    ///
    /// - Parameters:
    ///   - version: of IP, over which it was announced.
    ///   - family: the version of IP of the address.
    private static func ask(
        _ name: String, _ bus: BusConnection, interface: Int32 = Avahi.any, protocol version: Int32 = Avahi.any, family: Int32
    ) async throws(DiscoveryError) -> FoundService {
        let body = try await bus.call(
            Avahi.call(
                "ResolveService", "iisssiu",
                [.int32(interface), .int32(version), .text(name), .text(FoundService.type), .text("local"), .int32(family), .number(0)]))
        guard let found = FoundService(resolved: body) else { throw .malformed }
        return found
    }

    /// Resolves with both versions of IP; if only one of them works, the other fails after Avahi's timeout, and is not waited for.
    private static func resolve(_ name: String, _ bus: BusConnection) async throws(DiscoveryError) -> FoundService {
        let results = await withTaskGroup(of: Result<FoundService, DiscoveryError>.self) { group in
            for family in [Avahi.inet, Avahi.inet6] {
                group.addTask {
                    do throws(DiscoveryError) { return .success(try await ask(name, bus, family: family)) } catch { return .failure(error) }
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

    /// What is announced, collected for some seconds; of more than ``HeardNames`` keeps, some.
    ///
    /// - Parameter isProven: whether a listener of that name was reached before. It is found however much else is announced.
    package static func browse(
        seconds: Int, group: any EventLoopGroup, environment: Environment, isProven: @escaping @Sendable (String) -> Bool = { _ in false }
    ) async throws(DiscoveryError) -> [FoundService] {
        let bus = try await BusConnection.open(group: group)
        defer { bus.close() }
        try await Avahi.listen(on: bus)
        _ = try await bus.call(
            Avahi.call(
                "ServiceBrowserNew", "iissu",
                [.int32(Avahi.any), .int32(Avahi.any), .text(FoundService.type), .text("local"), .number(0)]))
        let end = Task {
            try? await environment.time.sleep(seconds: seconds)
            bus.close()
        }
        defer { end.cancel() }
        return await Search(bus, HeardNames(random: environment.random, isProven: isProven)).run()
    }

    /// Resolves what the browser hears, until the connection is closed.
    private final class Search: Sendable {
        private let bus: BusConnection
        private let heard: Mutex<HeardNames>

        init(_ bus: BusConnection, _ heard: HeardNames) {
            self.bus = bus
            self.heard = Mutex(heard)
        }

        func run() async -> [FoundService] {
            await withTaskGroup(of: Void.self) { group in
                for await signal in bus.signals where signal.interface == Avahi.browser {
                    take(signal)
                    guard let first = heard.withLock({ $0.next() }) else { continue }
                    group.addTask { await self.resolve(first) }
                }
                group.cancelAll()
            }
            return heard.withLock { $0.services() }
        }

        private func take(_ signal: BusMessage) {
            guard signal.body.count >= 3, let interface = signal.body[0].int32, let version = signal.body[1].int32, let name = signal.body[2].text else { return }
            switch signal.member {
            case "ItemNew":
                let isLocal = (signal.body.last?.number ?? 0) & Avahi.isLocal != 0
                heard.withLock { $0.add(name, interface: interface, version: version, isLocal: isLocal) }
            case "ItemRemove": heard.withLock { $0.remove(name) }
            default: break
            }
        }

        /// Goes on with what waits, until nothing does. A host announces itself over each version of IP for which it has an address, so only that address is
        /// asked for: the answer about the other may never come, and would keep others from being asked about.
        private func resolve(_ first: HeardNames.Heard) async {
            var next: HeardNames.Heard? = first
            while let current = next {
                let service = try? await ServiceLookup.ask(
                    current.name, bus, interface: current.interface, protocol: current.version, family: current.version)
                let isOver = Task.isCancelled
                next = heard.withLock { heard in
                    heard.answer(current, service)
                    return isOver ? nil : heard.next()
                }
            }
        }
    }
}
