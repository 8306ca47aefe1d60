import Documents

/// Manual pages in the language of man(7), from what the argument parser knows of the commands.
enum ManualPages {
    /// Name and text of each page: the program's, then one for every command below it, with its own commands in it.
    static func all(_ root: JSONValue, version: String) -> [(name: String, text: String)] {
        let program = root["commandName"]?.asString ?? "nightjar"
        let commands = shown(root)
        var pages = [("\(program).1", page(root, [program], commands, version))]
        for command in commands {
            let name = command["commandName"]?.asString ?? ""
            pages.append(("\(program)-\(name).1", page(command, [program, name], shown(command), version)))
        }
        return pages
    }

    private static func shown(_ command: JSONValue) -> [JSONValue] {
        (command["subcommands"]?.asArray ?? []).filter { $0["commandName"]?.asString != "help" && $0["shouldDisplay"]?.asBool != false }
    }

    private static func page(_ command: JSONValue, _ path: [String], _ commands: [JSONValue], _ version: String) -> String {
        let title = path.joined(separator: "-")
        let isProgram = path.count == 1
        var text = ".TH \(title.uppercased()) 1 \"\" \"nightjar \(version)\"\n.SH NAME\n\(escaped(title)) \\- \(words(command["abstract"]))\n"
        text += ".SH SYNOPSIS\n\(synopsis(command, path))"
        if let discussion = command["discussion"]?.asString { text += ".SH DESCRIPTION\n\(escaped(discussion))\n" }
        text += options(command)
        if !commands.isEmpty {
            text += ".SH COMMANDS\n"
            for inner in commands {
                let name = inner["commandName"]?.asString ?? ""
                if isProgram {
                    text += ".TP\n.BR \(escaped("\(title)-\(name)")) (1)\n\(words(inner["abstract"]))\n"
                } else {
                    text += ".SS \(escaped((path + [name]).joined(separator: " ")))\n\(words(inner["abstract"]))\n.PP\n\(synopsis(inner, path + [name]))"
                    if let discussion = inner["discussion"]?.asString { text += ".PP\n\(escaped(discussion))\n" }
                    text += options(inner, heading: false)
                }
            }
        }
        if !isProgram { text += ".SH SEE ALSO\n.BR \(path[0]) (1)\n" }
        return text
    }

    private static func arguments(_ command: JSONValue) -> [JSONValue] {
        (command["arguments"]?.asArray ?? []).filter { $0["shouldDisplay"]?.asBool != false && name($0) != "help" }
    }

    private static func synopsis(_ command: JSONValue, _ path: [String]) -> String {
        if let usage = command["usage"]?.asString {
            return usage.split(separator: "\n").map { ".br\n\(escaped(String($0)))\n" }.joined()
        }
        var text = ".B \(escaped(path.joined(separator: " ")))\n"
        for argument in arguments(command) {
            let inner = spelled(argument)
            text += argument["isOptional"]?.asBool == true ? "[\(inner)]\n" : "\(inner)\n"
        }
        if !shown(command).isEmpty { text += "\\fICOMMAND\\fR\n" }
        return text
    }

    private static func options(_ command: JSONValue, heading: Bool = true) -> String {
        let arguments = arguments(command)
        guard !arguments.isEmpty else { return "" }
        return (heading ? ".SH OPTIONS\n" : "")
            + arguments.map { argument in
                var text = ".TP\n\(spelled(argument))\n\(words(argument["abstract"]))\n"
                if let value = argument["defaultValue"]?.asString { text += "Default: \(escaped(value)).\n" }
                return text
            }.joined()
    }

    private static func name(_ argument: JSONValue) -> String {
        argument["preferredName"]?["name"]?.asString ?? argument["valueName"]?.asString ?? ""
    }

    /// `\fB--config\fR \fIfile\fR`, or the value of a positional argument.
    private static func spelled(_ argument: JSONValue) -> String {
        let value = "\\fI\(escaped((argument["valueName"]?.asString ?? "").uppercased()))\\fR"
        if argument["kind"]?.asString == "positional" { return value + (argument["isRepeating"]?.asBool == true ? " ..." : "") }
        let names = (argument["names"]?.asArray ?? []).map { name in
            "\\fB\(escaped((name["kind"]?.asString == "short" ? "-" : "--") + (name["name"]?.asString ?? "")))\\fR"
        }
        return names.joined(separator: ", ") + (argument["kind"]?.asString == "option" ? " \(value)" : "")
    }

    private static func words(_ value: JSONValue?) -> String { escaped(value?.asString ?? "") }

    /// Whatever the terminal of whoever reads it can show.
    private static func ascii(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.isASCII { text.unicodeScalars.append(scalar) } else if scalar == "…" { text += "..." } else {
                let digits = String(scalar.value, radix: 16, uppercase: true)
                text += "\\[u\(String(repeating: "0", count: max(0, 4 - digits.utf8.count)))\(digits)]"
            }
        }
    }

    private static func escaped(_ text: String) -> String {
        ascii(text.replacing("\\", with: "\\e").replacing("-", with: "\\-")).split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.hasPrefix(".") || line.hasPrefix("'") ? "\\&\(line)" : String(line)
        }.joined(separator: "\n")
    }
}
