import Documents
import Encodings
import Environment
import HTTPServer
import Interfaces
import NIOCore

/// Bearer tokens that IBM Cloud's IAM issues for an API key, for use with Cloudant: requested when needed, kept until shortly before they expire,
/// with one request at a time.
public final class IAMTokens: Sendable {
    private enum Limits {
        /// `iam_answer_bytes`: the size of the service's answer.
        static let answerBytes = 64 << 10
        /// `iam_time`: for the request and its answer.
        static let time = TimeAmount.seconds(30)
    }

    /// How to reach the service.
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
    private let key: @Sendable () -> String
    private let keeper: TokenKeeper

    /// - Parameters:
    ///   - url: the service's URL, such as `https://iam.cloud.ibm.com/identity/token`.
    ///   - way: evaluated for each request, as is the key. Both may read files.
    ///   - key: the API key.
    public init(
        _ url: EndpointURL, group: any EventLoopGroup, environment: Environment, way: @escaping @Sendable () throws -> Way,
        key: @escaping @Sendable () -> String
    ) {
        (self.url, self.way, self.group, self.key) = (url, way, group, key)
        keeper = TokenKeeper(environment)
    }

    /// A token that is valid now.
    ///
    /// - Throws: ``ReplicationError``: http 401 if the service rejects the key, otherwise its answer or the error below.
    func current() async throws -> String { try await keeper.current { await self.ask() }.text }

    /// The database rejected this token, so it is not used any more.
    func forget(_ token: String) { keeper.forget(token) }

    /// Texts that must not be logged.
    var secrets: [String] { [key()] + keeper.texts }

    private func ask() async -> Result<TokenKeeper.Token, ReplicationError> {
        do { return .success(try await exchange()) } catch {
            return .failure(error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(url): \(error)"))
        }
    }

    private func exchange() async throws -> TokenKeeper.Token {
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
        return keeper.token(text, life: json?["expires_in"]?.asInt64 ?? TokenKeeper.defaultTokenLife)
    }

    private func refusal(_ answer: HTTPClient.Response, _ json: JSONValue?) -> ReplicationError {
        let words = [json?["errorCode"]?.asString, json?["errorMessage"]?.asString].compactMap(\.self).joined(separator: ": ")
        // The service answers 400 for an unknown key.
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
