import Encodings

/// JSON Web Tokens that a listener accepts as logins: who signs them, and which claims they must have.
package struct TokenSettings: Sendable, ConfigurationSection {
    /// A file with public keys, or secrets. Absolute path. Default: nil, if there is a secret.
    package var keys: Located<String>?
    /// The secret for HS256. Default: nil, if there are keys.
    package var secret: Located<Secret>?
    /// The accepted algorithms, limited to those that the key supports. Default: empty, all that the keys support.
    package var algorithms: [Located<SignatureAlgorithm>] = []
    /// Default: nil, any.
    package var issuer: Located<String>?
    /// The recipients for whom the tokens may be issued. Default: empty, nobody in particular.
    package var audience: [Located<String>] = []
    /// Claims that are required in addition to `exp`. Default: empty.
    package var requiredClaims: [Located<String>] = []
    /// Default `sub`.
    package var userClaim = Located("sub")
    /// Default: nil, the token does not determine channels.
    package var channelsClaim: Located<String>?
    package var rolesClaim: Located<String>?
    package var collectionsClaim: Located<String>?
    /// Default `read_only`.
    package var readOnlyClaim = Located("read_only")
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// The secret's minimum size: the size of HS256's digest (RFC 7518).
    private static let secretBytes = 32

    static let sectionName = "listener_tokens"
    static let keys: [Key<TokenSettings>] = [
        Key("keys", optional: \.keys, Form<String>.path.located,
            "File with the issuer's keys: a JSON Web Key Set, or public keys or certificates in PEM. Read again when it changes; never fetched."),
        Key("secret", optional: \.secret, Form<Secret>.secret.located,
            "Secret for HS256 shared with the issuer, at least 32 bytes, in addition to keys or instead of them. If it comes from a file, that is read again when it "
                + "changes."),
        Key("algorithms", \.algorithms, Form<SignatureAlgorithm>.choice.located.list(atLeast: 1, of: "algorithms"),
            "Algorithms that are accepted. Absent: all that the keys are for. A token never chooses: its key determines which ones it may be signed with."),
        Key("issuer", optional: \.issuer, Form.text("the name of an issuer").located, "The claim iss has to be this. Absent: it is not checked."),
        Key("audience", \.audience, .audience,
            "The claim aud has to name this one, or one of these. Absent: tokens that have an aud are refused, since they are for others."),
        Key("required_claims", \.requiredClaims, Form<String>.claim.located.list(of: "claims"), "Claims that are required in addition to exp, which always is."),
        Key("user_claim", \.userClaim, Form<String>.claim.located, "The claim with the user's name. For all claims here: a.b means b in a, unless a claim is called a.b."),
        Key("channels_claim", optional: \.channelsClaim, Form<String>.claim.located,
            "The claim with the channels that the user may pull: a list, or a string with spaces between them. A token without it grants none. Absent: tokens do not "
                + "determine channels."),
        Key("roles_claim", optional: \.rolesClaim, Form<String>.claim.located, "The same for the user's roles. CouchDB uses _couchdb.roles."),
        Key("collections_claim", optional: \.collectionsClaim, Form<String>.claim.located,
            "The same for the collections that the user may use. A token without it may use none. Absent: all of the listener's."),
        Key("read_only_claim", \.readOnlyClaim, Form<String>.claim.located, "The claim that, if true, lets the user pull but not push."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if keys == nil, secret == nil {
            reading.report(at: position, "nothing verifies the tokens: set \"keys\", a file with the issuer's public keys, or the \"secret\" of HS256")
        }
        if let secret, secret.value.revealed.utf8.count < Self.secretBytes {
            reading.report(
                at: secret.position,
                "expected a secret of at least \(Self.secretBytes) bytes (RFC 7518), found one of \(secret.value.revealed.utf8.count): a shorter one can be found out from a single token")
        }
        if let first = algorithms.first, secret != nil, keys == nil, !algorithms.contains(where: { $0.value == .hs256 }) {
            reading.report(at: first.position, "the secret is for HS256, which is not among the algorithms: add it, or name \"keys\"")
        }
    }
}

extension Form where Value == String {
    fileprivate static let claim = Form<String>.text("the name of a claim")
}

extension Form where Value == [Located<String>] {
    fileprivate static let audience: Form<[Located<String>]> = {
        let element = Form<String>.text("the name of an audience").located
        let list = element.list(atLeast: 1, of: "audiences")
        return Form<[Located<String>]>(
            shape: .anyOf([element.shape, list.shape]), expected: "\(element.expected), or a list of them",
            read: { node, reading in node.elements == nil ? element.read(node, &reading).map { [$0] } : list.read(node, &reading) })
    }()
}
