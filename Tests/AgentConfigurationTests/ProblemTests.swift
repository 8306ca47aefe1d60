import AgentConfiguration
import Testing

/// A wrong configuration. `‸` stands before the place that the problem names.
struct Wrong: Sendable, CustomTestStringConvertible {
    var text: String
    var parts: [String]

    init(_ text: String, _ parts: String...) {
        self.text = text
        self.parts = parts
    }

    var testDescription: String { text }
}

/// A database, a listener and a replicator around what is wrong.
private func replicator(_ lines: String, target: String = "wss://hub/main") -> String {
    """
    databases: { main: { collections: [ plant.readings ] } }
    replicators:
      - name: hub
        database: main
        target: \(target)
        \(lines)
    """
}

private func listener(_ lines: String) -> String {
    """
    databases: { main: {} }
    listeners:
      - name: edge
        databases: [ main ]
        \(lines)
    """
}

private let wrong: [Wrong] = [
    Wrong(replicator("network_interface: [ eth0, ‸\"a b\" ]"), "network_interface", "the name of a network interface or an IP address"),
    Wrong(replicator("network_interface: ‸[]"), "network_interface", "at least 1"),
    Wrong(replicator("pong_time: ‸0"), "pong_time", "seconds"),
    Wrong(listener("authenticator: none\n    pong_time: ‸-1"), "pong_time", "seconds"),
    Wrong(replicator("proxy: { url: \"http://p:1\", roots: [ ‸ca.pem ] }"), "needs a url that begins with https:"),
    Wrong(replicator("open_session: ‸true"), "open_session", "needs an authenticator with username and password"),
    Wrong(replicator("authenticator: { bearer: t }\n    open_session: ‸true"), "needs an authenticator with username and password"),
    Wrong(replicator("authenticator: { username: u, password: p }\n    open_session: ‸true", target: "http://h/db"), "the protocol of Couchbase Lite"),
    Wrong(listener("authenticator: none\n    pull_filter: { plugin: p, on_failure: ‸default_rule }"), "only conflicts can be decided by another rule"),
    Wrong(replicator("collections: { _default: { conflict_resolver: { plugin: p, on_failure: ‸local } } }"), "pending or default_rule"),
    Wrong(replicator("collections: { _default: { channels: [ good, ‸\"bad,name\" ] } }"), "a channel", "no comma"),
    Wrong(listener("authenticator: none\n    collections: [ ‸plant.readings ]"), "none of its databases has the collection \"plant.readings\""),
    // Syntax, by libyaml.
    Wrong("data: a\n‸\tplugins: b", "syntax", "a tab stands here"),
    Wrong("data: [ a, b\nlog‸: {}\n", "syntax", "did not find expected ',' or ']'", "line 1, column 7"),
    Wrong("data: \"a\n\n‸", "syntax", "unexpected end of stream", "line 1, column 7"),
    Wrong("listeners:\n  - name: a\n  ‸databases: [ main ]\n - x", "syntax"),
    Wrong("data: a‸: b", "syntax", "mapping values"),
    // What YAML has and a configuration has not.
    Wrong("data: /a\n‸---\ndata: /b", "second document"),
    Wrong("data: ‸&a /x", "anchors"),
    Wrong("data: ‸*a", "aliases"),
    Wrong("data: ‸!!str 7", "tags"),
    Wrong("? ‸[ a ]\n: b", "a key must be a single value"),
    Wrong("data: /a\n‸data: /b", "\"data\"", "second time", "line 1, column 1"),
    Wrong("databases:\n  a:\n    history: { revisions: 5, ‸revisions: 6 }", "second time", "line 3, column 16"),
    Wrong("log: " + String(repeating: "[", count: 31) + "‸[", "nested more than 32 levels"),
    // Keys.
    Wrong("‸prot: 1", "unknown key \"prot\"", "valid keys: data, plugins"),
    Wrong("‸listener: []", "did you mean \"listeners\"?"),
    Wrong("‸plugin-limits: {}", "did you mean \"plugin_limits\"?"),
    Wrong("admin: { ‸prot: 4 }", "admin: unknown key \"prot\"; did you mean \"port\"?"),
    Wrong("log: { domains: { ‸replicators: debug } }", "log.domains", "did you mean \"replicator\"?"),
    Wrong("databases: { main: { history: { ‸revision: 3 } } }", "databases.main.history", "did you mean \"revisions\"?"),
    Wrong(replicator("‸deltaSync: true"), "replicators[0]", "did you mean \"delta_sync\"?"),
    Wrong(replicator("collections: { _default: { ‸push_fliter: x } }"), "collections._default", "did you mean \"push_filter\"?"),
    Wrong("listeners: [ ‸{ port: 1, databases: [ main ] } ]\ndatabases: { main: {} }", "listeners[0]", "\"name\" is missing"),
    Wrong("databases: { m: {} }\nreplicators:\n  - ‸name: r\n    database: m", "\"target\" is missing"),
    // Types.
    Wrong("‸- a", "expected a mapping", "found a list"),
    Wrong("‸just words", "expected a mapping", "found \"just words\""),
    Wrong("data: ‸[ a ]", "data: expected a path, found a list"),
    Wrong("data: ‸12", "found 12", "put it in quotes"),
    Wrong("data:‸", "expected a path, found nothing"),
    Wrong("data: ‸\"\"", "not an empty one"),
    Wrong("data: ‸\"a\\0b\"", "NUL"),
    Wrong("databases: ‸[ main ]", "expected a mapping from database names", "found a list"),
    Wrong("listeners: ‸{ name: a }", "expected a list of listeners, found a mapping"),
    Wrong("databases: { main: { collections: ‸plant.readings } }", "expected a list", "as [ … ]"),
    Wrong("databases: { main: { delta_sync: ‸yes } }", "true or false", "found \"yes\""),
    Wrong(listener("read_only: ‸\"true\""), "expected true or false, found \"true\"; leave out the quotes"),
    Wrong(listener("port: ‸\"4984\""), "expected a whole number from 0 to 65535, found \"4984\"; leave out the quotes"),
    Wrong(listener("port: ‸49.84"), "found 49.84"),
    // Values.
    Wrong(listener("port: ‸65536"), "listeners[0].port", "from 0 to 65535", "found 65536"),
    Wrong(listener("port: ‸-1"), "found -1"),
    Wrong(listener("port: ‸99999999999999999999999"), "from 0 to 65535"),
    Wrong(listener("max_connections: ‸0"), "from 1"),
    Wrong(listener("interface: ‸10.0.0.256"), "network interface or an IP address", "10.0.0.256"),
    Wrong(listener("interface: ‸\"a b\""), "network interface"),
    Wrong(listener("client_certificates: ‸requires"), "did you mean \"require\"?"),
    Wrong("log: { level: ‸fatal }", "one of trace, debug, verbose", "found \"fatal\"; did you mean \"critical\"?"),
    Wrong("log: { domains: { http: ‸verbos } }", "found \"verbos\"; did you mean \"verbose\"?"),
    Wrong("log: { level: ‸warn }", "one of", "warning"),
    Wrong("log: { format: ‸xml }", "text or json"),
    Wrong("databases: { ‸Main: {} }", "expected a database name", "found \"Main\""),
    Wrong("databases: { ‸_main: {} }", "expected a database name"),
    Wrong("databases: { main: { collections: [ ‸a.b.c ] } }", "scope.collection"),
    Wrong("databases: { main: { collections: [ ‸_private ] } }", "scope.collection"),
    Wrong("databases: { main: { collections: [ ‸plant._default ] } }", "scope.collection"),
    Wrong("databases: { main: { collections: [ a, ‸_default.a ] } }", "_default.a is listed twice", "column 37"),
    Wrong("databases: { main: { history: { revisions: ‸1 } } }", "from 2"),
    Wrong("databases: { main: { conflict_resolver: ‸Merge } }", "the name of a plugin", "found \"Merge\""),
    Wrong("databases: { main: { conflict_resolver: ‸{ params: {} } } }", "\"plugin\" is missing"),
    Wrong("databases: { main: { conflict_resolver: { plugin: a, params: ‸[ 1 ] } } }", "a mapping of parameters, found a list"),
    Wrong(replicator("collections: { plant.readings: { push_transform: { plugin: a, shadow: ‸b } } }"), "a filter or a sync function only", "\"shadow\""),
    Wrong(replicator("observer: { plugin: a, shadow: ‸b }"), "\"shadow\""),
    Wrong(listener("authenticator: none\n    push_filter: { plugin: a, shadow: b, on_failure: ‸default_rule }"), "only conflicts can be decided by another rule"),
    Wrong(listener("sync: { plugin: a, shadow: ‸{ params: {} } }"), "\"plugin\" is missing"),
    Wrong("admin: { address: ‸0.0.0.0 }", "loopback", "token"),
    Wrong("admin: { open: ‸true, token: t }", "remove one of the two"),
    Wrong("admin: { open: true, address: ‸0.0.0.0 }", "loopback", "token"),
    Wrong("admin: { hosts: [ ‸\"*\" ] }", "without a port, a scheme or a wildcard"),
    Wrong("admin: { hosts: [ gateway-1, ‸'*.plant.example' ] }", "wildcard"),
    Wrong("admin: { hosts: [ ‸\"gateway-1:4985\" ] }", "without a port"),
    Wrong("admin: { hosts: [ ‸http://gateway-1 ] }", "scheme"),
    Wrong("admin: { address: ‸eth0 }", "an IP address or localhost"),
    Wrong("plugin_limits: { a: { memory: ‸16MB } }", "such as 16MiB"),
    Wrong("plugin_limits: { a: { memory: ‸2GiB } }", "from 1MiB to 1GiB"),
    Wrong("plugin_limits: { a: { cpu_ms: ‸0 } }", "milliseconds"),
    Wrong("plugin_limits: { a: { ‸cpu: 5 } }", "valid keys: memory, cpu_ms"),
    // Replicators.
    Wrong(replicator("max_attempts: ‸-1"), "max_attempts", "from 0", "found -1"),
    Wrong(replicator("max_attempt_wait_time: ‸-5"), "seconds", "found -5"),
    Wrong(replicator("heartbeat: ‸0"), "from 1"),
    Wrong(replicator("heartbeat: ‸5m"), "found \"5m\""),
    Wrong(replicator("compression: ‸10"), "replicators[0].compression", "off, or a level from 0 (off) to 9 (small)", "found 10"),
    Wrong(listener("authenticator: none\n    compression: ‸false"), "listeners[0].compression", "off, or a level from 0 (off) to 9"),
    Wrong(listener("authenticator: none\n    compression: ‸\"6\""), "found \"6\""),
    Wrong(replicator("compression: ‸off", target: "https://hub/main"), "compression", "Couchbase Lite", "the target is https:"),
    Wrong(replicator("collections: { _default: { priority: ‸10 } }"), "_default.priority", "from 0 to 9", "found 10"),
    Wrong(replicator("collections: { _default: { document_ids: ‸[] } }"), "_default.document_ids", "at least 1 of them, found 0", "leave out document_ids"),
    Wrong(replicator("type: pull\n    collections: { _default: { priority: ‸1 } }"), "orders what is pushed", "type is pull"),
    Wrong(replicator("bandwidth: { send: ‸64 }"), "replicators[0].bandwidth.send", "a size from 4KiB", "found 64"),
    Wrong(replicator("bandwidth: ‸64KiB"), "replicators[0].bandwidth", "a mapping"),
    Wrong(replicator("bandwidth: ‸{}"), "\"send\", \"receive\" or both", "found neither"),
    Wrong(replicator("bandwidth: { ‸up: 64KiB }"), "valid keys: send, receive"),
    Wrong(replicator("bandwidth: ‸{ send: 64KiB }", target: "exec:true"), "bandwidth", "needs a network target", "the target is exec:"),
    Wrong(listener("authenticator: none\n    connection_bandwidth: { receive: ‸1KiB }"), "listeners[0].connection_bandwidth.receive", "a size from 4KiB"),
    Wrong(listener("user: u\n    endpoint: \"unix:/run/x\"\n    bandwidth: ‸{ send: 64KiB }"), "\"bandwidth\" applies to listeners on a port only"),
    Wrong(replicator("type: ‸both"), "one of push, pull, push_and_pull"),
    Wrong(replicator("type: ‸push-and-pull"), "did you mean \"push_and_pull\"?"),
    Wrong(replicator("", target: "‸ftp://hub/main"), "unknown scheme \"ftp\""),
    Wrong(replicator("", target: "‸wsss://hub/main"), "did you mean \"wss\"?"),
    Wrong(replicator("", target: "‸hub.example.com"), "expected a target beginning with ws://"),
    Wrong(replicator("", target: "‸wss:hub"), "expected // after"),
    Wrong(replicator("", target: "‸wss://hub:0/main"), "port from 1 to 65535"),
    Wrong(replicator("", target: "‸wss://hub:70000/main"), "port from 1 to 65535"),
    Wrong(replicator("", target: "‸wss://u:p@hub/main"), "credentials", "authenticator"),
    Wrong(replicator("", target: "‸wss:///main"), "no host"),
    Wrong(replicator("", target: "‸wss://hub"), "names no database"),
    Wrong(replicator("", target: "‸wss://hub/main?x=1"), "no query"),
    Wrong(replicator("", target: "‸ws://[::g]/main"), "not an IPv6 address"),
    Wrong(replicator("", target: "‸\"exec: \""), "needs a command"),
    Wrong(replicator("", target: "‸serial:ttyUSB0"), "absolute path"),
    Wrong(replicator("collections: ‸{}"), "no collection at all"),
    Wrong(replicator("collections: { ‸plant.reading: {} }"), "has no collection \"plant.reading\"", "did you mean \"plant.readings\"?"),
    Wrong(replicator("collections: { _default: {}, ‸_default._default: {} }"), "second time"),
    Wrong(replicator("collections: ‸[ plant.readings ]"), "expected a mapping from collections"),
    Wrong(replicator("collections: { _default: { document_ids: [ ‸7 ] } }"), "document_ids[0]", "put it in quotes"),
    // What a source leaves out.
    Wrong(replicator("collections: { _default: { selector: ‸{ a: 1 } } }"), "needs a CouchDB database (http or https)", "the target is wss:"),
    Wrong(replicator("collections: { _default: { source_filter: ‸a/b } }"), "needs a CouchDB database"),
    Wrong(replicator("collections: { _default: { selector: { a: 1 }, channels: [ ‸x ] } }", target: "http://h/main"), "contradicts \"selector\""),
    Wrong(replicator("type: push\n    collections: { _default: { selector: ‸{ a: 1 } } }", target: "http://h/main"), "type is push"),
    Wrong(replicator("collections: { _default: { selector: ‸even } }", target: "http://h/main"), "a selector of CouchDB"),
    Wrong(replicator("collections: { _default: { source_filter: ‸_view } }", target: "http://h/main"), "one of CouchDB's own"),
    Wrong(replicator("collections: { _default: { source_filter: { filter: a/b, params: { ‸since: 1 } } } }", target: "http://h/main"), "set by the replicator"),
    Wrong(replicator("collections: { _default: { source_filter: { filter: a/b, params: { x: ‸{ y: 1 } } } } }", target: "http://h/main"), "a single value or a list"),
    Wrong(replicator("collections: { _default: { source_filter: { filter: a/b, params: { x: [ 1, ‸[ 2 ] ] } } } }", target: "http://h/main"), "a single value or a list"),
    Wrong(replicator("authenticator: { iam_api_key: ‸k }"), "an IAM key works only with a CouchDB database"),
    Wrong(replicator("authenticator: { iam_api_key: k, iam_url: ‸\"http://iam.example/token\" }", target: "https://h/main"), "beginning with https://"),
    Wrong(replicator("authenticator: ‸{ iam_url: \"https://iam.example/token\", bearer: b }", target: "https://h/main"), "exactly one of"),
    Wrong(replicator("authenticator: ‸{}"), "exactly one of", "found nothing"),
    Wrong(replicator("authenticator: ‸{ plugin: maker, bearer: b }"), "exactly one of", "bearer beside plugin"),
    Wrong(replicator("authenticator: { params: ‸{ user: u } }"), "needs a \"plugin\" beside it"),
    Wrong(replicator("authenticator: ‸{ username: u, password: p, bearer: b }"), "exactly one of", "username and password beside bearer"),
    Wrong(replicator("authenticator: ‸{ session: s, identity: i }"), "session beside identity"),
    Wrong(replicator("authenticator: { username: ‸u }"), "needs a \"password\""),
    Wrong(replicator("authenticator: { password: ‸p }"), "needs a \"username\""),
    Wrong(replicator("authenticator: { cookie: ‸c }"), "needs a \"session\""),
    Wrong(replicator("authenticator: { username: ‸\"a:b\", password: p }"), "must not contain \":\""),
    Wrong(replicator("authenticator: ‸by-hand"), "expected a mapping with the keys username"),
    Wrong(replicator("headers: { ‸X Site: a }"), "the name of an HTTP header"),
    Wrong(replicator("headers: { X-Site: ‸\"a\\r\\nb: c\" }"), "cannot carry"),
    Wrong(replicator("headers: { ‸Upgrade: x }"), "set by the connection"),
    Wrong(replicator("headers: { X-A: a, ‸x-a: b }"), "second time"),
    Wrong(replicator("pinned_server_certificate: ‸a.pem", target: "ws://hub/main"), "needs TLS", "the target is ws:"),
    Wrong(replicator("accept_only_self_signed_server_certificate: ‸true", target: "http://hub/main"), "needs TLS", "http:"),
    Wrong(replicator("authenticator: { identity: ‸me }", target: "ws://hub/main"), "an identity needs TLS"),
    Wrong(replicator("network_interface: ‸eth0", target: "exec:cat"), "needs a network target"),
    Wrong(replicator("headers: { ‸X-Site: a }", target: "serial:/dev/ttyS0"), "need HTTP", "serial:"),
    Wrong(replicator("proxy: ‸http://proxy:3128"), "expected a mapping with the keys url"),
    Wrong(replicator("proxy: ‸{ username: u, password: p }"), "the key \"url\" is missing"),
    Wrong(replicator("proxy: { url: ‸ftp://proxy }"), "expected http://HOST:PORT"),
    Wrong(replicator("proxy: { url: ‸\"socks5://me:hunter@proxy\" }"), "credentials in the URL are not allowed"),
    Wrong(replicator("proxy: { url: ‸http://proxy:0 }"), "a port from 1 to 65535"),
    Wrong(replicator("proxy: { url: http://proxy/, username: ‸u }"), "needs a \"password\""),
    Wrong(replicator("proxy: { url: http://proxy, username: ‸\"u:v\", password: p }"), "must not contain \":\""),
    Wrong(replicator("proxy: ‸{ url: http://proxy }", target: "exec:cat"), "needs a network target"),
    // Listeners and references.
    Wrong(listener("disable_tls: true\n    identity: ‸me"), "\"identity\" needs TLS"),
    Wrong(listener("disable_tls: true\n    client_certificates: ‸require"), "needs TLS"),
    Wrong(listener("authenticator: none\n    roots: [ ‸ca.pem ]"), "no effect while client_certificates is none"),
    Wrong(listener("identity: ‸{ certificate: c.pem }"), "\"key\" is missing"),
    Wrong("admin: {}\n" + listener("port: ‸4985\n    interface: 127.0.0.1"), "already that of the admin port"),
    Wrong("databases: { main: {} }\nlisteners: [ { name: a, databases: ‸[] } ]", "at least 1"),
    Wrong("databases: { main: {} }\nlisteners: [ { name: a, authenticator: none, databases: [ ‸mian ] } ]", "\"mian\" is not configured; did you mean \"main\"?"),
    Wrong("databases: { main: {} }\nlisteners: [ { name: a, authenticator: none, databases: [ main, ‸main ] } ]", "listed twice"),
    Wrong("databases: { main: {} }\nlisteners:\n- { name: a, databases: [ main ], port: 0, interface: lo }\n- { name: ‸a, databases: [ main ], port: 0, interface: lo }",
        "a listener named \"a\"", "second time", "line 3, column 11"),
    Wrong("databases: { main: {} }\nlisteners:\n- { name: a, databases: [ main ], authenticator: none }\n- { name: b, databases: [ main ], authenticator: none, port: ‸4984 }",
        "already that of the listener \"a\""),
    // A port that could not be read is nobody's.
    Wrong("databases: { main: {} }\nlisteners:\n- { name: a, databases: [ main ], authenticator: none }\n- { name: b, databases: [ main ], authenticator: none, port: ‸99999 }",
        "from 0 to 65535", "found 99999"),
    Wrong("admin: { port: ‸abc }\n" + listener("port: 4985\n    interface: 127.0.0.1"), "from 0 to 65535"),
    Wrong("databases: { main: {} }\nreplicators:\n- { name: a, database: main, target: exec:x }\n- { name: ‸a, database: main, target: exec:y }", "a replicator named \"a\""),
    Wrong("replicators: [ { name: a, database: ‸main, target: exec:x } ]", "the database \"main\" is not configured"),
    Wrong("databases: { main: {} }\nreplicators: [ { name: ‸a/b, database: main, target: exec:x } ]", "letters, digits"),
    // Who may connect.
    Wrong("databases: { main: {} }\nlisteners: [ ‸{ name: a, databases: [ main ] } ]", "on all interfaces", "\"authenticator: none\""),
    Wrong(listener("interface: ‸0.0.0.0"), "on \"0.0.0.0\"", "no authenticator"),
    Wrong(listener("interface: ‸eth0\n    disable_tls: true"), "on \"eth0\"", "no authenticator"),
    Wrong(listener("client_certificates: ‸require"), "nothing judges the certificates", "authenticate_certificate"),
    Wrong(listener("authenticator: none\n    client_certificates: ‸request"), "nothing judges the certificates"),
    Wrong(listener("interface: ‸eth0\n    client_certificates: request\n    roots: [ ca.pem ]"), "no authenticator"),
    Wrong(listener("authenticator: ‸None"), "expected none, the name of a plugin"),
    Wrong(listener("disable_tls: true\n    authenticator: none\n    client_certificates: ‸request"), "\"client_certificates\" needs TLS, but \"disable_tls\" is true (line 5, column 18)"),
    // Identities and how servers are judged.
    Wrong(listener("authenticator: none\n    identity: ‸certs/plant.pem"), "a label in the key store", "found \"certs/plant.pem\""),
    Wrong(listener("authenticator: none\n    identity: ‸\"pkcs11:token=a?pin-value=1\""), "pin-source=file:PATH"),
    Wrong(listener("authenticator: none\n    identity: { certificate: c.pem, key: k.pem, ‸passphrse: x }"), "did you mean \"passphrase\"?"),
    Wrong(replicator("pinned_server_certificate: ‸sha256/abc="), "is not a pin", "base64 of 32 bytes"),
    Wrong(replicator("pinned_server_certificate: [ a.pem, ‸sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB= ]"), "is not a pin"),
    Wrong(replicator("pinned_server_certificate: ‸[]"), "at least 1"),
    Wrong(replicator("pinned_server_certificate: ‸sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", target: "ws://hub/main"), "needs TLS"),
    Wrong(replicator("roots: [ ‸ca.pem ]", target: "ws://hub/main"), "roots: needs TLS (wss or https), but the target is ws:"),
    Wrong(replicator("unsafe_skip_server_certificate_verification: ‸true", target: "http://hub/main"), "needs TLS", "http:"),
    Wrong(replicator("pinned_server_certificate: a.pem\n    unsafe_skip_server_certificate_verification: ‸true"),
        "contradicts \"pinned_server_certificate\" (line 6, column 32)"),
    Wrong(replicator("‸skip_server_certificate_verification: true"), "did you mean \"unsafe_skip_server_certificate_verification\"?"),
    Wrong(replicator("headers: { ‸cookie: a=b }"), "use authenticator: { session"),
    Wrong(replicator("headers: { ‸HOST: a }"), "set by the connection"),
    Wrong(replicator("headers: ‸\"X-Token: abc\""), "expected a mapping from header names to texts, found a text"),
    // Expansion.
    Wrong("data: ‸${credential:a/b}", "names no credential"),
    Wrong("data: ‸${credential:..}", "names no credential"),
    Wrong("data: ‸${credential:}", "names no credential"),
    Wrong("data: ‸${credential:token}", "CREDENTIALS_DIRECTORY is not set", "LoadCredential=token:PATH"),
    Wrong(replicator("authenticator: { username: u, password: ‸\"${NOT_SET}\" }"), "the environment variable NOT_SET is not set"),
    Wrong("data: ‸${file:/nonexistent/x}", "cannot be read", "No such file"),
    Wrong("data: ‸${file:/dev/zero}", "not a regular file"),
    Wrong("data: ‸${not a name}", "neither ${VARIABLE} nor ${file:PATH} nor ${credential:NAME}"),
    Wrong("data: ‸a${OPEN", "without \"}\""),
    Wrong(listener("port: ‸${WORD}"), "found what \"${WORD}\" expands to"),
]

@Suite("Problems of a configuration")
struct ProblemTests {
    @Test(arguments: wrong)
    func isReportedAtItsPlace(_ wrong: Wrong) throws {
        let marker = try #require(wrong.text.unicodeScalars.firstIndex(of: "‸"))
        let before = wrong.text.unicodeScalars[..<marker]
        let line = before.count { $0 == "\n" } + 1
        let column = before.count - (before.lastIndex(of: "\n").map { before.distance(from: before.startIndex, to: $0) + 1 } ?? 0) + 1
        let text = String(before) + String(wrong.text.unicodeScalars[wrong.text.unicodeScalars.index(after: marker)...])

        let found = problems(text, environment: ["WORD": "pass word"])
        #expect(found.count == 1, "\(found)")
        let problem = try #require(found.first)
        #expect("\(problem.line):\(problem.column)" == "\(line):\(column)", "\(problem)")
        for part in wrong.parts { #expect(problem.message.contains(part), "\(problem)") }
        #expect(!problem.message.contains("pass word"))
    }

    @Test func allProblemsOfAFileAreReportedInItsOrder() {
        let found = problems(
            """
            dta: /x
            listeners:
              - name: a
                databases: [ nowhere ]
                port: 70000
            admin: { port: x }
            log: { level: loud }
            log: {}
            """)
        #expect(found.map { "\($0.line):\($0.column)" } == ["1:1", "4:18", "5:11", "6:16", "7:15", "8:1"])
        #expect(found.first?.description.hasPrefix("nightjar.yaml:1:1: unknown key \"dta\"; did you mean \"data\"?") == true)
    }

    @Test func aWrongDatabaseIsOneProblemAlsoWhereItIsUsed() {
        let found = problems(
            """
            databases: { main: { collections: [ a!b ] } }
            replicators: [ { name: r, database: main, target: exec:x, collections: { a: {} } } ]
            """)
        #expect(found.count == 1, "\(found)")
        let unset = problems(
            """
            databases: { main: { collections: [ "${UNSET}" ] } }
            replicators: [ { name: r, database: main, target: exec:x, collections: { a: {} } } ]
            """)
        #expect(unset.count == 1, "\(unset)")
    }

    @Test func columnsCountCharacters() {
        let found = problems("log: { format: text } # é\ndata: \"é🐦\"\nadmin: { \"é🐦\": 1 }")
        #expect(found.map { "\($0.line):\($0.column)" } == ["3:10"])
    }

    @Test func notUTF8IsAProblemAtItsPlace() {
        for (bytes, place, part) in [
            (Array("data: a\nlog: ".utf8) + [0xFF], "2:6", "UTF-8"),
            ([0xFF, 0xFE, 0x61, 0x00], "0:0", "UTF-16"),
        ] {
            let error = #expect(throws: ConfigurationProblems.self) { try AgentSettings.parse(bytes, file: "f", folder: "/") }
            let problem = error?.problems.first
            #expect("\(problem?.line ?? -1):\(problem?.column ?? -1)" == place)
            #expect(problem?.message.contains(part) == true, "\(problem?.message ?? "")")
        }
    }

    @Test func aByteOrderMarkIsNoProblem() throws {
        #expect(try settings("\u{FEFF}data: /x").data.value == "/x")
    }

    @Test func boundsHoldAndAreNamed() {
        let large = problems("# " + String(repeating: "x", count: 1 << 20))
        #expect(large.first?.message.contains("larger than 1048576 bytes") == true)

        let many = problems("data: [" + String(repeating: "a,", count: 100_001) + "]")
        #expect(many.first?.message.contains("more than 100000 keys and values") == true)

        var text = ""
        for index in 0..<1000 { text += "k\(index): 1\n" }
        let error = #expect(throws: ConfigurationProblems.self) { try settings(text) }
        #expect(error?.problems.count == 200 && error?.omitted == 800)
        #expect(error?.description.hasSuffix("and 800 more") == true)
    }

    @Test func aliasBombsAreRefused() {
        let found = problems("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]")
        #expect(found.count == 1 && found.first?.message.contains("anchors") == true)
    }

    @Test func secretsAreNotInProblems() {
        let found = problems(
            """
            databases: { main: {} }
            replicators:
              - name: r
                database: main
                target: wss://h/main
                authenticator: { username: u, password: 271828 }
              - name: s
                database: main
                target: "wss://h/main"
                authenticator: { bearer: "to\\nken314" }
                heartbeat: "${BEAT}"
            """, environment: ["BEAT": "x161803"])
        #expect(found.count == 3, "\(found)")
        for problem in found {
            for secret in ["271828", "ken314", "161803"] { #expect(!problem.description.contains(secret)) }
        }
    }

    /// Wherever it was written: also as a name, which is looked for among others and may be quoted by code that does not find it.
    @Test func whatAVariableHoldsIsInNoProblem() {
        let places = [
            "data: ${W}", "plugins: \"a/${W}\"", "databases: { main: { conflict_resolver: \"${W}\" } }", "databases: { main: { collections: [ \"${W}\" ] } }",
            "databases: { main: {} }\nlisteners: [ { name: \"${W}\", databases: [ \"${W}\" ], port: \"${W}\", interface: \"${W}\", collections: [ \"${W}\" ] } ]",
            "databases: { main: {} }\nlisteners: [ { name: \"x ${W}\", databases: [ \"x-${W}\", \"x-${W}\" ], identity: \"${W}\", roots: \"${W}\" } ]",
            "databases: { main: {} }\nlisteners: [ { name: a, databases: [ main ], endpoint: \"unix:${W}\" }, { name: \"${W}\", databases: [ main ], endpoint: \"unix:${W}\" } ]",
            "databases: { main: {} }\nreplicators: [ { name: \"${W}\", database: \"${W}\", target: \"${W}\", type: \"${W}\", collections: { a: { push_filter: \"${W}\" } } } ]",
            "databases: { main: {} }\nreplicators: [ { name: r, database: main, target: \"local:${W}\" }, { name: s, database: main, target: \"wss://${W}:${W}/${W}\" } ]",
            "admin: { address: \"${W}\", port: \"${W}\", tokens: [ { name: \"${W}\", token: a }, { name: \"${W}\", token: \"${W}\" } ] }",
            "log: { level: \"${W}\", domains: { network: \"${W}\" } }", "limits: { memory: \"${W}\" }", "fleet: { database: \"${W}\", keys: [ \"${W}\" ], accept_config: [ \"${W}\" ] }",
        ]
        for value in ["hunter2-in-a-variable", String(repeating: "hunter2 ", count: 40), "hunter2\n\u{1B}[31m", "hunter2"] {
            for place in places {
                for problem in problems(place, environment: ["W": value]) {
                    #expect(!problem.description.contains("hunter2"), "\(place): \(problem)")
                }
            }
        }
        let found = problems("databases: { main: {} }\nlisteners: [ { name: a, databases: [ \"${W}\" ], interface: lo } ]", environment: ["W": "hunter2"])
        #expect(found.contains { $0.message.contains("the database what \"${W}\" expands to is not configured; databases: main") }, "\(found)")
    }
}
