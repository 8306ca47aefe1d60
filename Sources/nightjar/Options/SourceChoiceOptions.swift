import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Replication

/// What a CouchDB source is asked to leave out, like `selector` and `source_filter` in a configuration.
struct SourceChoiceOptions: ParsableArguments, Sendable {
    @Option(help: ArgumentHelp("Pull only documents that match this CouchDB selector, which the other side evaluates (http: and https:).", valueName: "json"))
    var selector: String?
    @Option(help: ArgumentHelp("Let a filter on the other side, DESIGN/NAME, decide what is pulled (http: and https:).", valueName: "name"))
    var sourceFilter: String?
    @Option(help: ArgumentHelp("Parameters of --source-filter: an object of names with single values, or lists of them.", valueName: "json"))
    var sourceParams: String?

    /// - Parameter others: further options that select documents, as the user typed them.
    /// - Throws: `ValidationError`.
    func check(source: String, isBoth: Bool, target: String, others: [String]) throws {
        if sourceParams != nil, sourceFilter == nil { throw ValidationError("--source-params needs --source-filter") }
        let mine = (selector == nil ? [] : ["--selector"]) + (sourceFilter == nil ? [] : ["--source-filter"])
        guard let option = mine.first else { return }
        guard (isBoth ? [source, target] : [source]).contains(where: Self.isDatabase) else {
            throw ValidationError("\(option) needs a CouchDB database (http: or https:) as SOURCE: it chooses what is pulled, and --push-filter what is pushed")
        }
        if let other = (mine + others).dropFirst().first { throw ValidationError("give \(option) or \(other), not both: a source takes one of them") }
        if sourceFilter?.hasPrefix("_") == true {
            throw ValidationError("--source-filter \(sourceFilter ?? ""): that is one of CouchDB's own: use --selector or --doc-ids; views do not filter here")
        }
        if sourceFilter?.isEmpty == true { throw ValidationError("--source-filter names no filter") }
    }

    private static func isDatabase(_ place: String) -> Bool {
        let place = place.lowercased()
        return place.hasPrefix("http://") || place.hasPrefix("https://")
    }

    /// - Throws: ``AgentError`` if the JSON is not valid for the option.
    func filter() throws -> SourceFilter? {
        if let selector {
            let json = try Self.json(selector, "--selector")
            guard json.asObject?.isEmpty == false else { throw AgentError(.invalid, "--selector is not a JSON object with conditions: \(selector)") }
            return .selector(json)
        }
        guard let sourceFilter else { return nil }
        return .named(sourceFilter, parameters: try sourceParams.map(Self.parameters) ?? [])
    }

    private static func parameters(_ text: String) throws -> [(name: String, value: String)] {
        guard let object = try json(text, "--source-params").asObject else { throw AgentError(.invalid, "--source-params is not a JSON object: \(text)") }
        return try object.members.map { member in
            guard !SourceFilterSettings.reservedParameters.contains(member.key) else {
                throw AgentError(.invalid, "--source-params: the parameter \"\(member.key)\" of _changes is set by the replicator")
            }
            guard (member.value.asArray ?? [member.value]).allSatisfy({ $0.asObject == nil && $0.asArray == nil }) else {
                throw AgentError(.invalid, "--source-params: \"\(member.key)\" is neither a single value nor a list of them, as a query carries it")
            }
            return (member.key, member.value.asString ?? member.value.text)
        }
    }

    private static func json(_ text: String, _ option: String) throws -> JSONValue {
        do { return try JSONValue(parsing: text) } catch { throw AgentError(.invalid, "\(option) is not JSON: \(error)") }
    }
}
