/// Finds the route for a request: a literal component takes precedence over `:name`, and that over `*rest`. 404 if no pattern matches the
/// path, 405 with `Allow` if one does, but not with the method.
package struct Router: Sendable {
    private struct Target {
        var route: Route
        var names: [String]
    }

    /// A node in the tree of patterns.
    private struct Node {
        var literals: [String: Int] = [:]
        var parameter: Int?
        /// Routes that end here, by method.
        var targets: [String: Target] = [:]
        /// Routes that take all the rest, by method.
        var rest: [String: Target] = [:]
    }

    private var nodes = [Node()]

    package init(_ routes: [Route]) {
        for route in routes { add(route) }
    }

    private mutating func add(_ route: Route) {
        var at = 0
        var names: [String] = []
        let parts = route.pattern.split(separator: "/", omittingEmptySubsequences: true)
        for (index, part) in parts.enumerated() {
            switch part.first {
            case "*":
                precondition(index == parts.count - 1, "\(route.pattern): what takes the rest comes last")
                names.append(String(part.dropFirst()))
                nodes[at].rest[route.method] = Target(route: route, names: names)
                return
            case ":":
                names.append(String(part.dropFirst()))
                let next = nodes[at].parameter ?? nodes.count
                if next == nodes.count { nodes.append(Node()) }
                nodes[at].parameter = next
                at = next
            default:
                let next = nodes[at].literals[String(part)] ?? nodes.count
                if next == nodes.count { nodes.append(Node()) }
                nodes[at].literals[String(part)] = next
                at = next
            }
        }
        precondition(nodes[at].targets[route.method] == nil, "\(route.method) \(route.pattern) is there twice")
        nodes[at].targets[route.method] = Target(route: route, names: names)
    }

    /// The pattern of the route for a request, however its path is spelled; nil if there is none.
    package func pattern(_ method: String, _ path: String) -> String? {
        var values: [String] = []
        guard let components = try? RequestTarget.components(path), let (targets, _) = find(components[...], 0, &values) else { return nil }
        return (targets[method] ?? (method == "HEAD" ? targets["GET"] : nil))?.route.pattern
    }

    /// Answers a request with its route.
    ///
    /// - Throws: ``HTTPError`` 404, 405, 413, 415 or 400, or the route's own error.
    package func respond(to request: HTTPRequest) async throws -> HTTPResponse {
        let path = request.path
        let components = try RequestTarget.components(path)
        var values: [String] = []
        guard let (targets, found) = find(components[...], 0, &values) else { throw HTTPError(404, "there is nothing at \(path)") }
        guard let target = targets[request.method] ?? (request.method == "HEAD" ? targets["GET"] : nil) else {
            var allowed = targets.keys.sorted()
            if targets["GET"] != nil, targets["HEAD"] == nil { allowed.append("HEAD") }
            let allow = allowed.sorted().joined(separator: ", ")
            throw HTTPError(405, "\(request.method) is not allowed for \(path); allowed: \(allow)", headers: ["Allow": allow])
        }
        var request = request
        request.parameters = RouteParameters(names: target.names, values: found)
        if let limit = target.route.bodyLimit { request.body.limit = limit }
        try request.body.checkDeclaredLength()
        try request.checkCoding(takesGzip: target.route.takesGzip)
        return try await target.route.respond(request)
    }

    private func find(_ rest: ArraySlice<String>, _ at: Int, _ values: inout [String]) -> (targets: [String: Target], values: [String])? {
        let node = nodes[at]
        guard let first = rest.first else { return node.targets.isEmpty ? nil : (node.targets, values) }
        if let next = node.literals[first], let found = find(rest.dropFirst(), next, &values) { return found }
        if let next = node.parameter, !first.isEmpty {
            values.append(first)
            if let found = find(rest.dropFirst(), next, &values) { return found }
            values.removeLast()
        }
        guard !node.rest.isEmpty else { return nil }
        return (node.rest, values + [rest.joined(separator: "/")])
    }
}
