import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication
import Selectors

/// The parameters of a request for `_changes`.
struct ChangesQuestion: Sendable {
    enum Feed: String { case normal, longpoll, continuous, eventsource }

    var feed = Feed.normal
    /// Nil: from now on.
    var since: ChannelPlace? = ChannelPlace()
    var limit: Int?
    var allLeaves = false
    var isDescending = false
    var includesDocuments = false
    var form = DocumentForm()
    var ids: [DocumentID]?
    /// Only design documents are requested, and feeds never contain those.
    var isEmpty = false
    var filter: (any DocumentFilter)?
    /// From `filter=sync_gateway/bychannel`; nil for all channels that the client may read.
    var channels: [String]?
    /// From `filter=_selector`.
    var selector: Selector?
    /// Milliseconds; nil for no heartbeat: the feed then ends after `timeout`.
    var heartbeat: Int?
    var timeout = CouchLimits.timeout

    init(_ call: CouchCall) async throws {
        let query = call.query
        var body = JSONObject()
        if call.request.method == "POST", !call.request.body.isEmpty {
            body = try await call.jsonObject(isOptional: true)
        }
        if let text = query.text("feed") {
            guard let feed = Feed(rawValue: text == "live" ? "continuous" : text) else {
                throw CouchError.badRequest("Supported `feed` types: normal, continuous, live, longpoll, eventsource")
            }
            self.feed = feed
        }
        try parsePosition(query.text("since") ?? body["since"].map { $0.asString ?? $0.text }, query.text("last-event-id") ?? call.request.headers.first("Last-Event-ID"))
        limit = try query.number("limit") ?? body["limit"]?.asInt64.map { min(Int(clamping: max(0, $0)), CouchQuery.largestNumber) }
        switch query.text("style") {
        case nil, "main_only": break
        case "all_docs": allLeaves = true
        case let other?: throw CouchError.badRequest("Invalid value for style: \(other)")
        }
        isDescending = try query.flag("descending") || query.text("dir") == "rev"
        includesDocuments = try query.flag("include_docs")
        form = try DocumentRoutes.form(query)
        try parseTimeouts(query)
        try await takeFilter(query, body, call)
        // A selector keeps the whole parsed request; otherwise only the list of ids is kept, since a feed may last long.
        if filter == nil, selector == nil { call.answer.reserveForRequest((ids ?? []).reduce(0) { $0 + 2 * $1.text.utf8.count + 96 }) }
    }

    /// The caller decides where a continuing feed begins. A sequence that this database has not reached belongs to a different database, so the feed
    /// begins from the start and nothing is missed.
    private mutating func parsePosition(_ text: String?, _ event: String?) throws(HTTPError) {
        guard let text = event ?? text else { return }
        if text == "now" {
            since = nil
            return
        }
        let place = ChannelPlace(parsing: text)
        let plain = text.utf8.filter { $0 != UInt8(ascii: "\"") }
        if place == ChannelPlace(), !plain.elementsEqual("0".utf8), !plain.isEmpty, plain != Array("null".utf8) {
            throw CouchError.badRequest("Malformed sequence supplied in 'since' parameter.")
        }
        since = place
    }

    private mutating func parseTimeouts(_ query: CouchQuery) throws(HTTPError) {
        switch query.text("heartbeat") {
        case nil, "false": break
        case "true": heartbeat = CouchLimits.heartbeat
        default:
            guard let value = try query.number("heartbeat"), value > 0 else {
                throw CouchError.badRequest("The heartbeat value should be a positive integer (in milliseconds).")
            }
            heartbeat = min(max(value, CouchLimits.shortest), 3_600_000)
        }
        if let value = try query.number("timeout") { timeout = min(value, CouchLimits.timeout) }
    }

    private mutating func takeFilter(_ query: CouchQuery, _ body: JSONObject, _ call: CouchCall) async throws {
        switch query.text("filter") {
        case nil, "": break
        case "_doc_ids":
            guard let list = try (body["doc_ids"] ?? query.json("doc_ids"))?.asArray else { throw CouchError.badRequest("`doc_ids` filter parameter is not provided.") }
            var seen: Set<DocumentID> = []
            ids = list.compactMap { $0.asString.flatMap { try? DocumentID($0) } }.filter { seen.insert($0).inserted }
        // How Couchbase Lite 1.x, and our own replicator, select channels.
        case ChannelSelection.filter where call.peer.channelPeer != nil:
            channels = try Self.channels(query.text("channels") ?? body["channels"]?.asString ?? "", atMost: call.peer.limits.maximumChannels)
        case "_design": isEmpty = true
        case "_selector":
            guard let selector = body["selector"] else { throw CouchError.badRequest("Selector must be specified in POST payload") }
            guard selector.asObject != nil else { throw CouchError.badRequest("Selector error: expected a JSON object") }
            self.selector = try Selector(selector)
        case "_view":
            guard let view = query.text("view") else { throw CouchError.badRequest("`view` filter parameter is not provided.") }
            let names = view.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1).map { String(Substring($0)) }
            guard names.count == 2 else { throw CouchError.badRequest("`view` must be of the form `designname/viewname`") }
            throw try await DesignDocuments(call: call).refusal(names[0], "views", names[1]) { CouchError.missing("missing json key: \($0)") }
        case let name?:
            // `design/PLUGIN`: CouchDB and Couchbase Lite 1.x name a filter in a design document this way.
            let plugin = name.utf8.split(separator: UInt8(ascii: "/")).last.map { String(Substring($0)) } ?? name
            do { filter = try call.host.filter(plugin, query.pairs.filter { !Self.own.contains($0.key) }) } catch let error as HTTPError where error.status == 404 {
                let names = name.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1).map { String(Substring($0)) }
                guard names.count == 2 else { throw error }
                let refusal = try await DesignDocuments(call: call).refusal(names[0], "filters", names[1]) { _ in error }
                throw refusal.status == 501 ? refusal : error
            }
        }
    }

    private static func channels(_ text: String, atMost limit: Int) throws(HTTPError) -> [String] {
        let names = ChannelSelection.names(text)
        guard !names.isEmpty else { throw CouchError.badRequest("the filter \(ChannelSelection.filter) needs the parameter channels, names with commas between") }
        guard names.count <= limit else { throw HTTPError(413, "the request names \(names.count) channels, max_channels is \(limit)") }
        return names
    }

    /// The feed's own parameters, which are not passed to the filter.
    private static let own: Set<String> = [
        "feed", "since", "limit", "style", "descending", "include_docs", "conflicts", "attachments", "att_encoding_info", "heartbeat", "timeout",
        "filter", "seq_interval", "last-event-id", "doc_ids",
    ]
}
