import Documents
import HTTPServer
import NIOCore
import PluginHost

/// `/api/plugins`: the plugins, and actions on them.
struct PluginRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .get("api/plugins") { _ in Answer.json(.array((agent.plugins?.status() ?? []).map { agent.report($0) })) },
            .get("api/plugins/:name/source") { try source(try $0.parameters.require("name")) },
            .post("api/plugins/reload") { _ in try await reload(nil) },
            .post("api/plugins/retry") { _ in try await retry(nil) },
            .post("api/plugins/:name/reload") { try await reload(try $0.parameters.require("name")) },
            .post("api/plugins/:name/retry") { try await retry(try $0.parameters.require("name")) },
            .post("api/plugins/:name/rollback") { try await rollBack(try $0.parameters.require("name"), try $0.value(.to)) },
        ]
    }

    private func plugins() throws(AgentError) -> PluginHost {
        guard let plugins = agent.plugins else {
            throw AgentError(.notFound, "the agent has had no plugins folder since its start; nightjar reload takes one that was made since")
        }
        return plugins
    }

    private func reload(_ name: String?) async throws -> HTTPResponse {
        let verdicts = try await plugins().reload(name)
        agent.fleet?.retry()
        if let name, verdicts.isEmpty { throw AgentError(.notFound, "there is no plugin \"\(name)\"") }
        return Answer.json(.array(verdicts.map { Agent.report($0) }))
    }

    /// Offers held documents to the plugin again, and retries the conflicts that wait for a resolver.
    private func retry(_ name: String?) async throws -> HTTPResponse {
        let asked: [(plugin: String, uses: Int)]
        do { asked = try plugins().retry(name) } catch let error as PluginError { throw AgentError(error) }
        await agent.retryConflicts()
        return Answer.json(
            .array(asked.map { JSONOutput.object(["plugin": .string($0.plugin), "uses": JSONOutput.number($0.uses)]) }), status: 202)
    }

    /// The source of the version in force, with the plugin's main file first.
    private func source(_ name: String) throws -> HTTPResponse {
        do {
            let (version, files) = try plugins().source(name)
            return Answer.json(
                JSONOutput.object([
                    "plugin": .string(name), "version": .string(version),
                    "files": .array(
                        files.map { JSONOutput.object(["path": .string($0.path), "text": .string(String(decoding: $0.bytes, as: UTF8.self))]) }),
                ]))
        } catch let error as PluginError {
            throw AgentError(error)
        }
    }

    private func rollBack(_ name: String, _ version: String?) async throws -> HTTPResponse {
        do {
            let verdict = try await plugins().rollBack(name, to: version)
            agent.fleet?.reportAgain()
            var answer = Agent.report(verdict)
            if case .rolledBack(let rollback) = verdict.outcome, var members = answer.asObject {
                members["warning"] = .string(warning(of: rollback, name))
                answer = .object(members)
            }
            return Answer.json(answer)
        } catch let error as PluginError {
            throw AgentError(error)
        }
    }
}

extension PluginRoutes {
    /// The version that was rolled back is still named by the fleet, or in the plugins folder, and comes back with the next change.
    private func warning(of rollback: PluginRollback, _ name: String) -> String {
        let isFleets = agent.fleetStore?.used(FleetItem(.plugin, name))?.plugin != nil
        let place = isFleets ? "the fleet still names version \(rollback.from)" : "the plugins folder still holds version \(rollback.from)"
        let change = isFleets ? "the next version that is published for this agent" : "the next change of a file of the plugin"
        let remedy = isFleets ? "publish the older files under a new version: nightjar fleet publish" : "fix the plugin there, or replace it with the older file"
        return "\(place): \(change), or nightjar plugin reload \(name), ends the rollback; \(remedy)"
    }
}

extension AgentError {
    /// Distinguishes a plugin that does not exist from an action that is not possible on one that does.
    init(_ error: PluginError) {
        switch error {
        case .unknown, .invalidName: self.init(.notFound, "\(error)")
        case .noVersion, .refused: self.init(.conflict, "\(error)")
        default: self.init(.failed, "\(error)")
        }
    }
}

extension Agent {
    static func report(_ verdict: ReloadVerdict) -> JSONValue {
        var outcome = "unchanged"
        var error: String?
        var rollback: PluginRollback?
        switch verdict.outcome {
        case .unchanged: break
        case .reloaded: outcome = "reloaded"
        case .missing: outcome = "missing"
        case .rolledBack(let done): (outcome, rollback) = ("rolled_back", done)
        case .refused(let problem): (outcome, error) = ("refused", problem.description)
        }
        return JSONOutput.object([
            "plugin": .string(verdict.plugin), "outcome": .string(outcome), "version": JSONOutput.text(verdict.version),
            "generation": JSONOutput.number(verdict.generation), "error": JSONOutput.text(error), "rolled_back": report(rollback),
        ])
    }

    static func report(_ rollback: PluginRollback?) -> JSONValue {
        rollback.map { JSONOutput.object(["from": .string($0.from), "to": .string($0.to)]) } ?? .null
    }

    nonisolated func report(_ plugin: PluginStatus) -> JSONValue {
        func milliseconds(_ value: Double?) -> JSONValue { value.map { JSONOutput.number($0) } ?? .null }
        return JSONOutput.object([
            "name": .string(plugin.name),
            "description": JSONOutput.text(plugin.description),
            "version": JSONOutput.text(plugin.version),
            "fleet": (fleetStore?.origin(of: plugin.name, version: plugin.version)).map { Self.report($0) } ?? .null,
            "generation": JSONOutput.number(plugin.generation),
            "state": .string(plugin.state.rawValue),
            "hooks": .array(plugin.hooks.map { .string($0) }),
            "used_by": .array(plugin.usedBy.map { .string($0) }),
            "calls": JSONOutput.number(plugin.calls),
            "errors": JSONOutput.number(plugin.errors),
            "rejected": JSONOutput.number(plugin.rejected),
            "not_asked": JSONOutput.number(plugin.notAsked),
            "p99_ms": milliseconds(plugin.p99Milliseconds),
            "memory_bytes": JSONOutput.number(plugin.memoryBytes),
            "states": JSONOutput.number(plugin.states),
            "per_hook": .array(
                plugin.perHook.map { hook in
                    JSONOutput.object([
                        "hook": .string(hook.name), "calls": JSONOutput.number(hook.calls), "rejected": JSONOutput.number(hook.rejected),
                        "not_asked": JSONOutput.number(hook.notAsked),
                        "errors": .object(JSONObject(hook.errors.map { .init(key: $0.kind, value: JSONOutput.number($0.count)) })),
                        "p50_ms": milliseconds(hook.p50Milliseconds), "p99_ms": milliseconds(hook.p99Milliseconds),
                    ])
                }),
            "last_failure": JSONOutput.text(plugin.lastFailure),
            "limits_hit": JSONOutput.object([
                "timeouts": JSONOutput.number(plugin.limitHits.timeouts),
                "memory": JSONOutput.number(plugin.limitHits.memory),
                "results": JSONOutput.number(plugin.limitHits.results),
                "log_lines_dropped": JSONOutput.number(plugin.limitHits.logLinesDropped),
                "states_rebuilt": JSONOutput.number(plugin.limitHits.statesRebuilt),
            ]),
            "refused": plugin.refused.map {
                JSONOutput.object(["version": .string($0.version), "error": .string($0.error), "only_tests": .bool(plugin.failsOnlyTests)])
            } ?? .null,
            "rolled_back": Self.report(plugin.rolledBack),
            "kept_versions": .array(
                plugin.keptVersions.map {
                    JSONOutput.object(["version": .string($0.version), "since": .string(Timestamp.format($0.since))])
                }),
            "failing": .array(
                plugin.failing.map {
                    JSONOutput.object([
                        "used_by": .string($0.usedBy), "failures": JSONOutput.number($0.failures), "seconds": JSONOutput.number($0.seconds),
                        "error": .string($0.error),
                        // The only peer for which it is not called; null if it is not called for anybody.
                        "peer": JSONOutput.text($0.peer),
                    ])
                }),
            "login_failures": .array(plugin.loginFailures.map { .string($0) }),
            "parameter_problems": .array(plugin.parameterProblems.map { .string($0) }),
            "shadows": .array(plugin.shadows.map { Self.report($0) }),
        ])
    }

    private static func report(_ shadow: PluginStatus.Shadow) -> JSONValue {
        JSONOutput.object([
            "place": .string(shadow.place), "beside": .string(shadow.beside), "serving_version": JSONOutput.text(shadow.servingVersion),
            "version": JSONOutput.text(shadow.version), "since": JSONOutput.text(shadow.since.map { Timestamp.format($0) }),
            "compared": JSONOutput.number(shadow.counts.compared), "same": JSONOutput.number(shadow.counts.same),
            "different": JSONOutput.number(shadow.counts.different), "failed": JSONOutput.number(shadow.counts.failed),
            "skipped": JSONOutput.number(shadow.counts.skipped),
            "differences": .array(
                shadow.differences.map {
                    JSONOutput.object([
                        "at": .string(Timestamp.format($0.at)), "id": .string($0.id), "collection": .string($0.collection),
                        "outcome": .string($0.outcome.rawValue), "serving": .string($0.serving), "candidate": .string($0.candidate),
                    ])
                }),
        ])
    }
}
