import Documents
import Environment
import Interfaces
import Logging
import LuaRuntime
import Synchronization

/// The services behind `nightjar.*` for one plugin's states.
final class StateHost: HashingHost {
    private let record: PluginRecord
    /// The origin of the running call; nil while load-time code runs.
    private let context = Mutex<CallContext?>(nil)
    let passwords = PasswordService()

    init(_ record: PluginRecord) { self.record = record }

    var environment: Environment { record.environment }

    func enter(_ context: CallContext) {
        self.context.withLock { $0 = context }
        passwords.newTurn()
    }

    func log(level: LuaLogLevel, message: String, fields: LuaValue) { record.log(level, message, fields) }

    func logDropped(_ lines: Int) {
        record.throttle.dropped(lines)
        record.statistics.droppedLogLines(lines)
    }

    func get(collection: String?, id: String) throws(LuaHostRefusal) -> LuaDocument? {
        guard let context = context.withLock({ $0 }), let database = context.database else {
            throw LuaHostRefusal("get is only available in a call that has a database")
        }
        let document: PolicyDocument?
        do {
            let name: CollectionName
            if let collection {
                name = try CollectionName(parsing: collection)
            } else {
                name = try CollectionName(scope: context.scope ?? "_default", name: context.collection ?? "_default")
            }
            document = try record.services.document(database: database, collection: name, id: try DocumentID(id))
        } catch let refusal as PluginServiceRefusal {
            throw LuaHostRefusal(refusal.message)
        } catch {
            throw LuaHostRefusal("\(error)")
        }
        return document.map { LuaDocument($0) }
    }

    func metric(_ kind: LuaMetricKind, name: String, value: Double, labels: LuaValue) throws(LuaHostRefusal) {
        try record.metrics.write(kind, name: name, value: value, labels: labels, plugin: record.name, to: record.services)
    }

    func readState(key: String) throws(LuaHostRefusal) -> LuaValue {
        do { return try record.services.readState(plugin: record.name, key: key) } catch { throw LuaHostRefusal(error.message) }
    }

    func writeState(key: String, value: LuaValue) throws(LuaHostRefusal) {
        guard context.withLock({ $0?.mayWriteState ?? true }) else {
            throw LuaHostRefusal(
                "a shadow does not write nightjar.state of a plugin that serves as well, whose answers would depend on it; save the new version under another name")
        }
        do { try record.services.writeState(plugin: record.name, key: key, value: value) } catch { throw LuaHostRefusal(error.message) }
    }
}

/// Checks names and limits the number of series that a plugin can create.
final class PluginMetrics: Sendable {
    private let series = Mutex<Set<String>>([])

    func write(
        _ kind: LuaMetricKind, name: String, value: Double, labels: LuaValue, plugin: String, to services: any PluginServices
    ) throws(LuaHostRefusal) {
        guard Self.isName(name) else { throw LuaHostRefusal("metric name \"\(name.prefix(100))\" must be letters, digits and _") }
        if kind == .count && value < 0 { throw LuaHostRefusal("count \"\(name)\" cannot go down (by \(value)); use gauge") }
        var pairs: [(String, String)] = []
        switch labels {
        case .missing, .null: break
        case .array(let items) where items.isEmpty: break
        case .object(let members):
            guard members.count <= PluginHostLimits.metricLabels else {
                throw LuaHostRefusal("metric \"\(name)\" has more than labels = \(PluginHostLimits.metricLabels) labels")
            }
            for member in members {
                guard Self.isName(member.key) else { throw LuaHostRefusal("label \"\(member.key.prefix(100))\" must be letters, digits and _") }
                guard member.key != "plugin", !member.key.utf8.starts(with: "__".utf8) else {
                    throw LuaHostRefusal("label \"\(member.key)\" is the agent's: use another name")
                }
                pairs.append((member.key, member.value.text.map { String($0.prefix(100)) } ?? member.value.shortText))
            }
        default: throw LuaHostRefusal("labels of metric \"\(name)\" must be a table of names and values")
        }
        let identity = pairs.reduce(name) { "\($0)\u{0}\($1.0)\u{0}\($1.1)" }
        let fits = series.withLock { series in
            if series.contains(identity) { return true }
            guard series.count < PluginHostLimits.metricSeries else { return false }
            series.insert(identity)
            return true
        }
        guard fits else { throw LuaHostRefusal("more than metric series = \(PluginHostLimits.metricSeries) different names and labels") }
        switch kind {
        case .count: services.count(plugin: plugin, name: name, value: value, labels: pairs)
        case .gauge: services.gauge(plugin: plugin, name: name, value: value, labels: pairs)
        }
    }

    private static func isName(_ name: String) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= 100, !(0x30...0x39).contains(first) else { return false }
        return name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x5F }
    }
}
