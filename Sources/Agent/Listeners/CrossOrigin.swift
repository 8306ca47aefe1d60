import AgentConfiguration
import HTTPServer

/// Which pages in browsers may use the listener (CORS): its own, and those of configured origins.
struct CrossOrigin: Sendable {
    enum Standing: Sendable {
        /// Not a page in a browser, or a page from this origin.
        case own
        /// A page from another origin that is allowed; with cookies and credentials, or without.
        case guest(withCredentials: Bool)
        case stranger
    }

    private let origins: [String]
    private let credentials: Bool

    init(_ settings: CORSSettings?) {
        origins = settings?.origins.map(\.value) ?? []
        credentials = settings?.credentials.value ?? false
    }

    func standing(_ headers: HeaderList) -> Standing {
        guard let origin = headers.first("Origin"), !PeerListener.isSameOrigin(headers) else { return .own }
        guard origins.contains(where: { $0 == "*" || HeaderList.sameName($0, origin) }) else { return .stranger }
        return .guest(withCredentials: credentials)
    }

    /// The answer to a browser's preflight request.
    func preflight(_ request: HTTPRequest) -> HTTPResponse? {
        guard request.method == "OPTIONS", request.headers.contains("Access-Control-Request-Method") else { return nil }
        var response = HTTPResponse(
            status: 204,
            headers: [
                "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, DELETE, COPY, OPTIONS",
                "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, Origin, If-Match, If-None-Match, Destination, Range, Content-MD5, X-Requested-With",
                "Access-Control-Max-Age": "600",
            ])
        mark(&response, request)
        return response
    }

    /// Allows the page to read the answer.
    func mark(_ response: inout HTTPResponse, _ request: HTTPRequest) {
        guard case .guest(let withCredentials) = standing(request.headers), let origin = request.headers.first("Origin") else { return }
        response.headers.set("Access-Control-Allow-Origin", origin)
        if withCredentials { response.headers.set("Access-Control-Allow-Credentials", "true") }
        response.headers.set("Access-Control-Expose-Headers", "ETag, Content-Type, Content-Range, Content-MD5, Accept-Ranges, Retry-After")
        response.headers.add("Vary", "Origin")
    }
}
