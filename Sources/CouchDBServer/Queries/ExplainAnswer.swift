import Documents
import HTTPServer
import Selectors

/// Answers `_explain`: how a query would be executed, and why the other indexes are not used.
enum ExplainAnswer {
    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        let question = try FindQuestion(try await call.jsonObject(CouchCall.findLimit))
        let plan = try await FindPlan(question, call)
        let name = call.collection.name.isDefault ? call.database.name : "\(call.database.name).\(call.collection.name)"
        let fields: JSONValue = question.fields.map { .array($0.map { .string($0.text) }) } ?? "all_fields"
        let others = plan.candidates.filter { $0.index.number != plan.indexNumber }
        let candidates = others.enumerated().map { place, candidate -> JSONValue in
            let reasons: [JSONValue] = [["name": .string(candidate.obstacle ?? "less_overlap")]]
            return [
                "index": IndexRoutes.shown(candidate.index),
                "analysis": [
                    "usable": .bool(candidate.obstacle == nil), "reasons": .array(reasons), "ranking": .int(place + 1), "covering": false,
                ],
            ]
        }
        let wanted: JSONValue = question.wanted.map { .array([.string($0.design)] + ($0.name.map { [.string($0)] } ?? [])) } ?? []
        let direction: JSONValue = question.sort.isDescending ? "rev" : "fwd"
        var object = JSONObject()
        object["dbname"] = .string(name)
        object["index"] = plan.index
        object["partitioned"] = false
        object["selector"] = question.selector.json
        object["opts"] = [
            "use_index": wanted, "bookmark": .string(question.bookmark?.text ?? Bookmark.none), "limit": .int(question.limit), "skip": .int(question.skip),
            "sort": question.sort.json, "fields": fields, "partition": "", "r": 1, "conflicts": .bool(question.withConflicts), "stale": false,
            "update": true, "stable": false, "execution_stats": .bool(question.withStatistics), "allow_fallback": .bool(question.allowsFallback),
        ]
        object["limit"] = .int(question.limit)
        object["skip"] = .int(question.skip)
        object["fields"] = fields
        object["covering"] = false
        // Clients expect CouchDB's values, although indexes here are not views: they are always up to date, and on one node.
        object["mrargs"] = [
            "include_docs": true, "view_type": "map", "reduce": false, "partition": nil, "direction": direction, "stable": false,
            "update": true, "conflicts": "undefined",
        ]
        object["index_candidates"] = .array(candidates)
        object["selector_hints"] = []
        if !plan.warnings.isEmpty { object["warning"] = .string(plan.warnings.joined(separator: "\n")) }
        return .couch(200, .object(object))
    }
}
