import Documents
import Encodings
import Environment
import HTTPServer
import Interfaces
import NIOCore
import Synchronization

/// Bearer tokens that IBM Cloud's IAM gives for an API key, as Cloudant takes them: asked for when they are needed, kept until they are
/// about to end, one question at a time.
public final class IAMTokens: Sendable {
    private enum Limits {
        /// `iam_answer_bytes`: of the service's answer.
        static let answerBytes = 64 << 10
        /// `iam_time`: for question and answer.
        static let time = TimeAmount.seconds(30)
        /// `iam_life`: seconds that a token lives of which the service does not say it.
        static let life: Int64 = 600
    }

    private struct Token {
        var text: String
        /// Seconds since 1970 from which it is not used any more.
        var end: Int64
    }

    private struct State {
        var token: Token?
        var asking: SharedWork<String>?
    }

    /// How the service is reached.
    public struct Way: Sendable {
        /// For `https:`.
        public var secureLayer: SecureLayer?
        public var proxy: ProxyServer?
        /// A network interface's name or an address of this machine to connect from.
        public var networkInterface: String?

        public init(secureLayer: SecureLayer? = nil, proxy: ProxyServer? = nil, networkInterface: String? = nil) {
            (self.secureLayer, self.proxy, self.networkInterface) = (secureLayer, proxy, networkInterface)
        }
    }

    private let url: EndpointURL
    private let way: @Sendable () throws -> Way
    private let group: any EventLoopGroup
    private let environment: Environment
    private let key: @Sendable () -> String
    private let state = Mutex(State())

    /// - Parameters:
    ///   - url: the service's, such as `https://iam.cloud.ibm.com/identity/token`.
    ///   - way: asked for anew each time, as the key is. Both may read files.
    ///   - key: the API key.
    public init(
        _ url: EndpointURL, group: any EventLoopGroup, environment: Environment, way: @escaping @Sendable () throws -> Way,
        key: @escaping @Sendable () -> String
    ) {
        (self.url, self.way, self.group, self.environment, self.key) = (url, way, group, environment, key)
    }

    /// A token that is good now.
    ///
    /// - Throws: ``ReplicationError``: http 401 where the service does not take the key, else what it answered or what lies below.
    func current() async throws -> String {
        while true {
            let now = environment.time.wallSeconds()
            let (token, asking) = state.withLock { state -> (String?, SharedWork<String>?) in
                if let token = state.token, token.end > now { return (token.text, nil) }
                if let asking = state.asking, !asking.isGivenUp { return (nil, asking) }
                let asking = SharedWork<String>(environment) { await self.ask($0) }
                state.asking = asking
                return (nil, asking)
            }
            if let token { return token }
            // Others may have given it up.
            do { if let asking { return try await asking.value() } } catch is CancellationError { try Task.checkCancellation() }
        }
    }

    /// The database did not take this token: it is not used any more.
    func forget(_ token: String) {
        state.withLock { state in if state.token?.text == token { state.token = nil } }
    }

    /// What must not be shown.
    var secrets: [String] { [key()] + (state.withLock { $0.token.map { [$0.text] } } ?? []) }

    private func ask(_ asking: SharedWork<String>) async -> Result<String, ReplicationError> {
        let result: Result<Token, ReplicationError>
        do { result = .success(try await exchange()) } catch {
            result = .failure(error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(url): \(error)"))
        }
        return state.withLock { state in
            if state.asking === asking { state.asking = nil }
            if case .success(let token) = result { state.token = token }
            return result.map(\.text)
        }
    }

    private func exchange() async throws -> Token {
        var client = HTTPClient(.tcp(host: url.host, port: url.port), group: group)
        let way = try way()
        (client.secureLayer, client.proxy, client.networkInterface) = (way.secureLayer, way.proxy, way.networkInterface)
        let form = "grant_type=\(PercentEncoding.encode("urn:ibm:params:oauth:grant-type:apikey"))&apikey=\(PercentEncoding.encode(key()))"
        let answer = try await client.request(
            "POST", url.path, headers: ["Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"],
            body: .buffer(ByteBuffer(string: form)), timeout: Limits.time, maximumBody: Limits.answerBytes)
        let json = try? JSONValue(parsing: [UInt8](answer.body.readableBytesView))
        guard answer.status == 200 else { throw refusal(answer, json) }
        guard let text = json?["access_token"]?.asString, !text.isEmpty, HeaderList.isSendable("Authorization", text) else {
            throw ReplicationError(domain: .http, code: 502, message: "\(url): the answer has no access_token", remedy: "check authenticator.iam_url")
        }
        let now = environment.time.wallSeconds()
        let life = max(0, min(json?["expires_in"]?.asInt64 ?? Limits.life, 86_400))
        // A fifth is left for requests under way, and for clocks that differ.
        return Token(text: text, end: now + life - life / 5)
    }

    private func refusal(_ answer: HTTPClient.Response, _ json: JSONValue?) -> ReplicationError {
        let words = [json?["errorCode"]?.asString, json?["errorMessage"]?.asString].compactMap(\.self).joined(separator: ": ")
        // The service says 400 to a key that it does not know.
        let isKey = [400, 401, 403].contains(answer.status)
        let key = key()
        var message = "\(url): no token for the API key: HTTP \(answer.status)\(words.isEmpty ? "" : ", \(words.prefix(300))")"
        if !key.isEmpty { message = message.with(key, replacedBy: "(secret)") }
        if isKey { return ReplicationError(domain: .http, code: 401, message: message, remedy: "check authenticator.iam_api_key") }
        var error = ReplicationError(domain: .http, code: answer.status, message: message)
        error.retryAfterSeconds = RetryAfter.seconds(answer.headers.first("Retry-After"), date: answer.headers.first("Date"))
        return error
    }
}

extension IAMTokens: Equatable {
    public static func == (left: IAMTokens, right: IAMTokens) -> Bool { left === right }
}
