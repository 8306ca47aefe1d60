import AgentConfiguration
import Testing

@Suite("Expansion of ${…}")
struct ExpansionTests {
    @Test func variablesInPlainAndQuotedTexts() throws {
        let settings = try settings(
            "data: ${ROOT}/a${SUFFIX}\nplugins: '${ROOT}/p'\nadmin: { port: \"${PORT}\" }\nlog: { level: \"${LEVEL}\" }",
            environment: ["ROOT": "/srv", "SUFFIX": "-7", "PORT": "5000", "LEVEL": "debug"])
        #expect(settings.data.value == "/srv/a-7")
        #expect(settings.plugins?.value == "/srv/p")
        #expect(settings.admin?.port.value == 5000)
        #expect(settings.log.level == .debug)
    }

    @Test func anExpandedTextStaysATextAndIsNotExpandedAgain() throws {
        let replicator = try settings(
            """
            databases: { main: {} }
            replicators:
              - name: r
                database: main
                target: wss://h/main
                authenticator: { username: "${U}", password: "${P}" }
            """, environment: ["U": "0123", "P": "${U}$${x}"]
        ).replicators.first
        #expect(replicator?.authenticator == .basic(username: Located("0123"), password: Secret("${U}$${x}")))
    }

    @Test func aDoubledDollarIsLiteral() throws {
        #expect(try settings("data: /a$${B}/$5").data.value == "/a${B}/$5")
    }

    @Test("what only a shell expands at the beginning of a path is refused, with what to write instead", arguments: [
        ("data: ~/nightjar", 7, "data: \"~\" is not expanded here: write the whole path, or ${HOME}/nightjar; a folder that has this name is ./~/nightjar"),
        ("data: \"~\"", 7, "data: \"~\" is not expanded here: write the whole path, or ${HOME}; a folder that has this name is ./~"),
        ("data: $HOME/nightjar", 7, "data: \"$HOME\" is not expanded here: write ${HOME}; a folder that has this name is ./$HOME/nightjar"),
        ("plugins: '$PLUGINS_7'", 10, "plugins: \"$PLUGINS_7\" is not expanded here: write ${PLUGINS_7}; a folder that has this name is ./$PLUGINS_7"),
    ])
    func shellSyntax(_ text: String, _ column: Int, _ message: String) {
        let found = problems(text)
        #expect(found.map(\.message) == [message])
        #expect(found.first?.line == 1 && found.first?.column == column, "\(found)")
    }

    @Test func shellSyntaxIsRefusedInPathsOfCertificatesAndKeys() {
        let listener = "name: l, databases: [ main ], port: 0, interface: 127.0.0.1, identity: { certificate: ~/l.pem, key: $KEYS/l.key }"
        let found = problems("databases: { main: {} }\nlisteners: [ { \(listener) } ]").map(\.message)
        for start in ["listeners[0].identity.certificate: \"~\" is not expanded here", "listeners[0].identity.key: \"$KEYS\" is not expanded here"] {
            #expect(found.contains { $0.hasPrefix(start) }, "\(start): \(found)")
        }
    }

    @Test("names of folders that only look like it are left alone", arguments: [
        ("./~/x", "/etc/nightjar/~/x"), ("~backup", "/etc/nightjar/~backup"), ("./$HOME", "/etc/nightjar/$HOME"), ("$5/x", "/etc/nightjar/$5/x"),
        ("/srv/$HOME/~", "/srv/$HOME/~"), ("${ODD}/x", "/etc/nightjar/$odd/x"),
    ])
    func noShellSyntax(_ path: String, _ resolved: String) throws {
        #expect(try settings("data: \(path)", environment: ["ODD": "$odd"]).data.value == resolved)
    }

    @Test func theProcessEnvironmentIsTheDefault() throws {
        let settings = try AgentSettings.parse(Array("data: ${PATH}".utf8), file: "f", folder: "/")
        #expect(!settings.data.value.isEmpty)
    }

    @Test func filesRelativeToTheConfiguration() throws {
        let folder = try TemporaryFolder()
        try folder.write("s3cret line\n", to: "token")
        try folder.write("a\r\n", to: "dos")
        try folder.write("two\n\n", to: "two")
        let settings = try settings("admin: { token: \"${file:token}\" }\ndata: /${file:dos}/${file:\(folder.path)/dos}", folder: folder.path)
        #expect(settings.admin?.token?.value.revealed == "s3cret line")
        #expect(settings.data.value == "/a/a")
        // Only one line break is the editor's.
        #expect(try AgentSettings.parse(Array("admin: { token: \"${file:two}\" }".utf8), file: "f", folder: folder.path).admin?.token?.value.revealed == "two\n")
    }

    @Test func credentialsOfSystemd() throws {
        let folder = try TemporaryFolder()
        try folder.write("s3cret\n", to: "hub.token_1")
        try folder.write([UInt8](repeating: 0x61, count: 65_537), to: "large")
        folder.makeFolder("folder")
        let environment = ["CREDENTIALS_DIRECTORY": folder.path]
        let read = try settings("admin: { token: \"${credential:hub.token_1}\" }", environment: environment)
        #expect(read.admin?.token?.value.revealed == "s3cret")
        for (name, part) in [("absent", "No such file"), ("large", "larger than 65536 bytes"), ("folder", "not a regular file")] {
            let found = problems("admin: { token: \"${credential:\(name)}\" }", environment: environment)
            #expect(found.count == 1 && found[0].message.contains(part), "\(found)")
        }
        // Only a folder that systemd may have named.
        #expect(problems("data: ${credential:x}", environment: ["CREDENTIALS_DIRECTORY": "relative"]).count == 1)
    }

    @Test func aMissingFileIsNamedWithItsPathAndWhatToDo() throws {
        let folder = try TemporaryFolder()
        let relative = problems("data: ${file:token.secret}", folder: folder.path)
        #expect(
            relative.map(\.message) == [
                "\"${file:token.secret}\" (\(folder.path)/token.secret) cannot be read: No such file or directory; create the file, or correct the path, "
                    + "which counts from the configuration's folder"
            ])
        let absolute = problems("data: ${file:/nonexistent/token.secret}", folder: folder.path)
        #expect(
            absolute.map(\.message) == [
                "\"${file:/nonexistent/token.secret}\" cannot be read: No such file or directory; create the file, or correct the path"
            ])
    }

    @Test func filesAreBoundedAndMustBeText() throws {
        let folder = try TemporaryFolder()
        try folder.write([UInt8](repeating: 0x61, count: 65_536), to: "full")
        try folder.write([UInt8](repeating: 0x61, count: 65_537), to: "large")
        try folder.write([0x61, 0xFF], to: "binary")
        folder.makeFolder("folder")
        #expect(problems("data: ${file:full}", folder: folder.path).isEmpty)
        for (name, part) in [("large", "larger than 65536 bytes"), ("binary", "not UTF-8"), ("folder", "not a regular file")] {
            let found = problems("log: {}\ndata: ${file:\(name)}", folder: folder.path)
            #expect(found.count == 1 && found.first?.line == 2 && found.first?.column == 7)
            #expect(found.first?.message.contains(part) == true, "\(found)")
        }
        // Together they are bounded as well.
        let many = problems("data: " + String(repeating: "${file:full}", count: 65), folder: folder.path)
        #expect(many.count == 1 && many.first?.message.contains("4194304") == true)
    }

    @Test func paramsAreExpandedAndNotShown() throws {
        let listener = try #require(
            try settings(
                """
                databases: { main: {} }
                listeners:
                  - name: l
                    databases: [ main ]
                    authenticator: { plugin: a, params: { key: "${KEY}", list: [ '${KEY}' ] } }
                """, environment: ["KEY": "hunter2"]
            ).listeners.first)
        let params = try #require(listener.authenticator?.params)
        #expect(params["key"]?.scalar?.value == .string("hunter2"))
        #expect(params["key"]?.scalar?.isExpanded == true)
        #expect(params.description == "{key: \"${KEY}\", list: [\"${KEY}\"]}")
    }

    @Test func aPlainExpansionInParamsHasTheTypeOfItsText() throws {
        let database = try #require(
            try settings(
                "databases:\n  main:\n    conflict_resolver:\n      plugin: a\n      params:\n        n: ${N}\n        empty: ${EMPTY}\n",
                environment: ["N": "42", "EMPTY": ""]
            ).databases.first)
        #expect(database.conflictResolver?.params?["n"]?.scalar?.value == .integer(42))
        #expect(database.conflictResolver?.params?["empty"]?.scalar?.value == .string(""))
    }

    @Test func printingSettingsShowsNoSecret() throws {
        let settings = try settings(
            sample.replacing("headers: {", with: "headers: { Authorization: opensesame,").replacing("file: users.txt", with: "key: \"${HUB_PASSWORD}\"")
                .replacing("port: 4985 }", with: "port: 4985, token: admintoken }"),
            environment: sampleEnvironment)
        var dumped = ""
        dump(settings, to: &dumped)
        for text in [dumped, "\(settings)", String(reflecting: settings), "\(settings.replicators)"] {
            for secret in ["hunter2", "opensesame", "admintoken", "plant-7"] { #expect(!text.contains(secret)) }
        }
        #expect(dumped.contains("(secret)"))
    }

    /// Part of a password that was written out, and looks like a reference.
    @Test func aSecretWithABraceInsideIsNotQuoted() {
        for value in ["pre${hunter2}", "pre${hunter2}post", "${hunter-2}", "${hunter2", "x${file:hunter2}", "x${credential:hunter2}", "${A}${hunter2}"] {
            for place in [
                "authenticator: { username: u, password: \"\(value)\" }", "authenticator: { bearer: \"\(value)\" }",
                "authenticator: { session: \"\(value)\" }", "headers: { X-Key: \"\(value)\" }",
            ] {
                let text = """
                    databases: { main: {} }
                    replicators:
                      - { name: hub, database: main, target: "ws://hub/main", type: push, \(place) }
                    """
                let found = problems(text, environment: ["A": "a"])
                #expect(!found.isEmpty, "\(place)")
                for problem in found { #expect(!problem.description.contains("hunter"), "\(place): \(problem)") }
            }
        }
        // What is nothing but a reference is named: else nobody could repair it.
        let text = "admin: { token: \"${HUNTER}\" }\n"
        #expect(problems(text).contains { $0.description.contains("HUNTER is not set") })
    }
}
