import Documents
import Glibc
import Interfaces
import LuaRuntime
import PluginHost
import Testing

/// plugins/README.md and plugins/nightjar.d.lua say what there is: nothing less, nothing more.
@Suite(.timeLimit(.minutes(10)))
struct ReferenceTests {
    static let readme = text("README.md")
    static let declarations = text("nightjar.d.lua")

    private static func text(_ name: String) -> String {
        guard let file = fopen("\(ShippedPluginTests.folder)/\(name)", "r") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 18)
        bytes.removeLast(bytes.count - fread(&bytes, 1, bytes.count, file))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Runs a resolver that answers with names, in the real sandbox.
    private static func names(_ body: String, more: String = "") async throws -> [String] {
        let folder = Folder()
        folder.write("names.lua", """
            local function names(prefix, t, out, seen)
              for name, value in pairs(t) do
                out[#out + 1] = prefix .. name
                if type(value) == "table" and not seen[value] then
                  seen[value] = true
                  names(prefix .. name .. ".", value, out, seen)
                end
              end
              table.sort(out)
              return out
            end
            return { resolve = function(conflict, ctx) \(body) end }
            """)
        let reports = try await PluginRunner.run(PluginRunner.Request(
            folder: folder.path, plugin: "names", hook: .resolve, input: .conflict(Array("{\"local_doc\":{},\"remote_doc\":{},\"base_doc\":{}}".utf8)), environment: .system))
        #expect(reports[0].failure == nil)
        return reports[0].result?["names"]?.asArray?.compactMap(\.asString) ?? []
    }

    /// Every name of the environment, `string.find`, `nightjar.log.info`, …
    private static func environment() async throws -> [String] {
        try await names("return { names = names('', _G, {}, { [_G] = true }) }").filter { !["string", "table", "math", "utf8", "coroutine", "os", "nightjar"].contains($0) }
    }

    /// Whether the word is in the text, not as a part of a longer name.
    private static func holds(_ text: String, _ word: String) -> Bool {
        text.ranges(of: word).contains { range in
            func isName(_ character: Character?) -> Bool { character.map { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." } ?? false }
            let before = range.lowerBound > text.startIndex ? text[text.index(before: range.lowerBound)] : nil
            let after = range.upperBound < text.endIndex ? text[range.upperBound] : nil
            return !isName(before) && !(after == "_" || after?.isLetter == true || after?.isNumber == true)
        }
    }

    @Test func everythingThereIsIsDocumented() async throws {
        let names = try await Self.environment()
        #expect(names.count > 100 && names.contains("nightjar.time.parse") && names.contains("string.gsub") && names.contains("_G"))
        for name in names where !["nightjar.log", "nightjar.json", "nightjar.time", "nightjar.base64", "nightjar.password", "nightjar.metrics"].contains(name) {
            #expect(Self.holds(Self.readme, name), "plugins/README.md does not say \(name)")
            let isField = name.hasPrefix("nightjar.") && name.split(separator: ".").count == 2
                && Self.declarations.contains("---@field \(name.dropFirst("nightjar.".count)) ")
            #expect(isField || Self.holds(Self.declarations, name), "plugins/nightjar.d.lua does not say \(name)")
        }
    }

    /// Names in the README's tables and lists that look like the library's, and declarations of the annotations.
    private static func documented() -> Set<String> {
        var found: Set<String> = []
        for line in declarations.split(separator: "\n") {
            if line.hasPrefix("function "), let end = line.firstIndex(of: "(") { found.insert(String(line[line.index(line.startIndex, offsetBy: 9)..<end])) }
            if line.hasPrefix("nightjar"), line.hasSuffix(" = {}") { found.insert(String(line.dropLast(5))) }
        }
        let text = readme + declarations
        for prefix in ["nightjar.", "string.", "table.", "math.", "utf8.", "coroutine.", "os."] {
            for range in text.ranges(of: prefix) {
                if range.lowerBound > text.startIndex, text[text.index(before: range.lowerBound)].isLetter { continue }
                let rest = text[range.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." }
                let name = prefix + (rest.last == "." ? rest.dropLast() : rest)
                // Types of the annotations begin with a capital, file names end as such.
                if rest.isEmpty || rest.first?.isUppercase == true || name.hasSuffix(".lua") || name.hasSuffix(".yaml") { continue }
                found.insert(name)
            }
        }
        return found
    }

    @Test func everythingDocumentedIsThere() async throws {
        let documented = Self.documented().sorted()
        #expect(documented.count > 80)
        let folder = Folder()
        folder.write("probe.lua", "return { push_filter = function()\n" + documented.map { "assert(\($0) ~= nil, '\($0)')\n" }.joined() + "return true end }")
        let reports = try await PluginRunner.run(PluginRunner.Request(folder: folder.path, plugin: "probe", hook: .pushFilter, input: .document(Array("{}".utf8)), environment: .system))
        #expect(reports[0].failure == nil && reports[0].result == true, "declared, but not there: \(reports[0].failure?.message ?? "")")
        // The annotations are Lua that loads.
        folder.write("annotations.lua", Self.declarations + "\nreturn { push_filter = function() return true end }")
        let loaded = try await PluginRunner.run(PluginRunner.Request(folder: folder.path, plugin: "annotations", hook: .pushFilter, input: .document(Array("{}".utf8)), environment: .system))
        #expect(loaded[0].failure == nil)
    }

    /// The fields of a class of the annotations.
    private static func fields(of type: String) -> Set<String> {
        var isInside = false
        var fields: Set<String> = []
        for line in declarations.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("---@class") { isInside = line.hasSuffix(" " + type) || line.contains(" \(type) ") }
            if isInside, line.hasPrefix("---@field ") { fields.insert(String(line.dropFirst(10).prefix { $0 != " " && $0 != "?" })) }
        }
        return fields
    }

    @Test func contextConflictAndTestsAreAsDeclared() async throws {
        let context = try await Self.names("return { names = names('', ctx, {}, {}) }")
        // A replicator's call has no listener, a trial no user and no protocol.
        #expect(Set(context.filter { !$0.contains(".") }).union(["listener", "user", "protocol"]) == Self.fields(of: "nightjar.Context"))
        #expect(Set(context.filter { $0.hasPrefix("flags.") }.map { String($0.dropFirst(6)) }) == Self.fields(of: "nightjar.Flags"))
        let conflict = try await Self.names("return { names = names('', conflict, {}, {}) }")
        // Versions are there where both sides have some.
        #expect(Set(conflict).union(["local_version", "remote_version"]) == Self.fields(of: "nightjar.Conflict"))
        for name in Self.fields(of: "nightjar.Context").union(Self.fields(of: "nightjar.Conflict")).union(Self.fields(of: "nightjar.Principal")) {
            #expect(Self.holds(Self.readme, name) || Self.holds(Self.readme, "flags.\(name)"), "plugins/README.md does not say \(name)")
        }
        // Each can be read where it is absent; the rest is refused, by GuardTests.
        let reads = [("ctx.", "nightjar.Context"), ("ctx.flags.", "nightjar.Flags"), ("conflict.", "nightjar.Conflict")].flatMap { prefix, type in
            Self.fields(of: type).map { "local _ = \(prefix)\($0)" }
        }
        #expect(try await Self.names(reads.joined(separator: "\n") + "\nreturn { names = { 'read' } }") == ["read"])
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        folder.write("a.test.lua", "return { names = function(t) local all = {} for name in pairs(t) do all[#all + 1] = name end table.sort(all) error(table.concat(all, ' '), 0) end }")
        let outcome = try await PluginTests.run(folder: folder.path, environment: .system)
        let members = Set((outcome[0].outcomes.first?.failure?.message ?? "").split(separator: " ").map(String.init).filter { !$0.contains(":") })
        #expect(members == Self.fields(of: "nightjar.Test"))
        for name in members { #expect(Self.holds(Self.readme, "t.\(name)"), "plugins/README.md does not say t.\(name)") }
    }

    /// Their own tests do not reach every line of them.
    @Test func shippedPluginsReadWhatThereIs() async throws {
        let check = try await PluginCheck.run(folder: ShippedPluginTests.folder, environment: .system)
        let shipped = check.plugins.map { "\($0.name).lua" }
        let examples = ["quickstart/plugins/only-above.lua", "quickstart/plugins/setpoints.lua", "signed-fleet/hot-only.lua"].map { "../examples/\($0)" }
        var count = 0
        for file in shipped + examples {
            let text = Self.text(file)
            #expect(!text.isEmpty, "\(file)")
            for (prefix, type) in [("ctx.", "nightjar.Context"), ("ctx.flags.", "nightjar.Flags"), ("conflict.", "nightjar.Conflict")] {
                let fields = Self.fields(of: type)
                for range in text.ranges(of: prefix) {
                    let name = String(text[range.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "_" })
                    #expect(fields.contains(name), "\(file) reads \(prefix)\(name)")
                    count += 1
                }
            }
        }
        #expect(count > 15)
    }

    @Test func hooksAndFailuresAreDescribed() {
        for hook in LuaHook.allCases {
            #expect(Self.readme.contains("| `\(hook.rawValue)` |"), "\(hook.rawValue)")
            #expect(Self.fields(of: "nightjar.Plugin").contains(hook.rawValue), "\(hook.rawValue)")
        }
        for kind in [LuaFailureKind.error, .timeout, .memory, .result, .load] {
            let known = switch kind { case .error, .timeout, .memory, .result, .load: true } // a new one must be listed here
            #expect(known && Self.readme.contains("| `\(kind.rawValue)` |"), "\(kind.rawValue)")
        }
        for kind in ParameterDeclaration.Kind.allCases {
            #expect(Self.holds(Self.readme, kind.rawValue) && Self.declarations.contains("\"\(kind.rawValue)\""), "\(kind.rawValue)")
        }
    }

    @Test func limitsHaveTheirRealDefaults() {
        let host = PluginHostLimits()
        let state = host.plugin.state
        func grouped(_ number: Int) -> String {
            var digits = Array("\(number)")
            for place in stride(from: digits.count - 3, to: 0, by: -3) { digits.insert(",", at: place) }
            return String(digits)
        }
        func bytes(_ count: Int) -> String {
            count % (1 << 20) == 0 ? "\(count >> 20) MiB" : count % (1 << 10) == 0 && count >= 16 << 10 ? "\(count >> 10) KiB" : "\(grouped(count)) bytes"
        }
        let rows = [
            ("memory", bytes(state.memoryBytes)), ("block", bytes(state.blockBytes)), ("keys of a table", grouped(LuaLimits.tableKeys)),
            ("texts given to one `math.max`, `math.min`, `string.char`, `string.format` or `utf8.char`", bytes(state.blockBytes) + " together"), ("source", bytes(state.sourceBytes)),
            ("load", "\(state.load.cpuMilliseconds) ms, \(grouped(state.load.instructions)) instructions"),
            ("CPU of a filter or authenticator", "\(host.plugin.filter.cpuMilliseconds) ms"),
            ("instructions of a filter or authenticator", grouped(host.plugin.authenticator.instructions)),
            ("CPU of a resolver or sync function", "\(host.plugin.resolver.cpuMilliseconds) ms"),
            ("instructions of a resolver or sync function", grouped(host.plugin.resolver.instructions)),
            ("result depth", "\(state.resultDepth)"), ("result nodes", grouped(state.resultNodes)), ("result bytes", bytes(state.resultBytes)),
            ("lookups", "\(state.lookupsPerCall) in a call"), ("password operations", "\(PluginHostLimits.passwordOperations) in a call"),
            ("log lines", "\(host.logLinesPerSecond) a second"), ("log lines of one call", "\(state.logLinesPerCall)"),
            ("log line", bytes(state.logLineBytes)), ("log fields", bytes(state.logFieldBytes) + " of JSON"),
            ("state keys", "\(PluginStateTable.maximumKeys)"), ("state key bytes", "\(PluginStateTable.maximumKeyBytes)"),
            ("state bytes", bytes(PluginStateTable.maximumBytes) + " of JSON"), ("sync_entries", "\(grouped(LuaPluginState.syncEntries)) channels and grants of a document"),
            ("metric series", "\(PluginHostLimits.metricSeries)"),
            ("labels", "\(PluginHostLimits.metricLabels) of a metric"), ("parameter file", bytes(host.parameterFileBytes)),
            ("plugin bytes", bytes(host.pluginBytes) + " of all its files"), ("plugins", "\(host.plugins)"),
            ("shadow_queue", "\(grouped(ShadowLimits.waiting)) documents or conflicts"), ("shadow_queue_bytes", bytes(ShadowLimits.waitingBytes) + " of them"),
            ("breaker failures", "\(host.breakerFailures) in a row"), ("breaker probe", "\(host.breakerProbeSeconds) s"),
            ("kept versions", "\(host.keptVersions)"), ("tests", "\(host.testMilliseconds / 1_000) s of all tests of a plugin"),
        ]
        for (name, value) in rows { #expect(Self.readme.contains("| \(name) | \(value) |"), "plugins/README.md does not have | \(name) | \(value) |") }
        let listed = Self.readme.split(separator: "## Limits")[1].split(separator: "## Failures")[0].split(separator: "\n").filter { $0.hasPrefix("| ") }.count
        #expect(listed == rows.count + 2, "a limit in plugins/README.md is not checked here")
    }
}
