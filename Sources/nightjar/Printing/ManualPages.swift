import Agent
import ArgumentParser

/// Manual pages in man(7) format, generated from the help text of every command.
enum ManualPages {
    /// The name and text of each page: the program's, then one for each top-level command, which includes its subcommands.
    static func all(_ root: any ParsableCommand.Type, version: String) -> [(name: String, text: String)] {
        let program = root._commandName
        var pages = [("\(program).1", page(Page(root, in: root, []), version))]
        for command in shown(root) {
            pages.append(("\(program)-\(command._commandName).1", page(Page(command, in: root, [program]), version)))
        }
        return pages
    }

    private static func shown(_ command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        command.configuration.subcommands.filter { $0.configuration.shouldDisplay }
    }

    /// One command.
    private struct Page {
        var command: any ParsableCommand.Type
        var root: any ParsableCommand.Type
        var path: [String]
        /// What follows the command's own words.
        var usage: Substring = ""
        var options: [(spelling: String, words: String)] = []

        init(_ command: any ParsableCommand.Type, in root: any ParsableCommand.Type, _ path: [String]) {
            (self.command, self.root, self.path) = (command, root, path + [command._commandName])
            // Wide enough that no text is wrapped.
            let help = root.helpMessage(for: command, columns: 100_000)
            var isOptions = false
            for line in help.split(separator: "\n", omittingEmptySubsequences: false) {
                if line.hasPrefix("USAGE: ") {
                    usage = line.dropFirst(7 + self.path.joined(separator: " ").count)
                } else if line.hasSuffix(":"), line.first != " " {
                    isOptions = line == "ARGUMENTS:" || line == "OPTIONS:"
                } else if isOptions, line.hasPrefix("  ") { take(line) }
            }
            options.removeAll { $0.spelling == "-h, --help" }
        }

        /// Parses `  --name <value>     words`, or the words on a separate line if the name is long.
        private mutating func take(_ line: Substring) {
            let text = line.drop { $0 == " " }
            if line.count - text.count > 2 {
                if !options.isEmpty { options[options.count - 1].words += String(text) }
                return
            }
            var end = text.startIndex
            while end < text.endIndex, !text[end...].hasPrefix("  ") { end = text.index(after: end) }
            options.append((String(text[..<end]), String(text[end...].drop { $0 == " " })))
        }
    }

    private static func page(_ page: Page, _ version: String) -> String {
        let title = page.path.joined(separator: "-")
        let isProgram = page.path.count == 1
        let configuration = page.command.configuration
        var text = ".TH \(title.uppercased()) 1 \"\" \"nightjar \(version)\"\n.SH NAME\n\(escaped(title)) \\- \(escaped(configuration.abstract))\n"
        text += ".SH SYNOPSIS\n\(synopsis(page))"
        if !configuration.discussion.isEmpty { text += ".SH DESCRIPTION\n\(escaped(configuration.discussion))\n" }
        text += options(page)
        let commands = shown(page.command)
        if !commands.isEmpty {
            text += ".SH COMMANDS\n"
            for command in commands {
                let name = command._commandName
                if isProgram {
                    text += ".TP\n.BR \(escaped("\(title)-\(name)")) (1)\n\(escaped(command.configuration.abstract))\n"
                } else {
                    let inner = Page(command, in: page.root, page.path)
                    text += ".SS \(escaped(inner.path.joined(separator: " ")))\n\(escaped(command.configuration.abstract))\n.PP\n\(synopsis(inner))"
                    if !command.configuration.discussion.isEmpty { text += ".PP\n\(escaped(command.configuration.discussion))\n" }
                    text += options(inner, heading: false)
                }
            }
        }
        if !isProgram { text += ".SH SEE ALSO\n.BR \(page.path[0]) (1)\n" }
        return text
    }

    private static func synopsis(_ page: Page) -> String {
        ".B \(escaped(page.path.joined(separator: " ")))\n" + (page.usage.isEmpty ? "" : "\(spelled(page.usage.drop { $0 == " " }))\n")
    }

    private static func options(_ page: Page, heading: Bool = true) -> String {
        guard !page.options.isEmpty else { return "" }
        return (heading ? ".SH OPTIONS\n" : "")
            + page.options.map { ".TP\n\(spelled($0.spelling[...]))\n\($0.words.isEmpty ? "\\&" : escaped($0.words))\n" }.joined()
    }

    /// Turns `--config <file>` into `\fB--config\fR \fIFILE\fR`.
    private static func spelled(_ text: Substring) -> String {
        var result = ""
        var rest = text
        while let first = rest.first {
            if first == "<", let end = rest.firstIndex(of: ">") {
                result += "\\fI\(escaped(rest[rest.index(after: rest.startIndex)..<end].uppercased()))\\fR"
                rest = rest[rest.index(after: end)...]
            } else if first == "-" {
                let end = rest.firstIndex { $0 == " " || $0 == "," || $0 == "]" } ?? rest.endIndex
                result += "\\fB\(escaped(String(rest[..<end])))\\fR"
                rest = rest[end...]
            } else {
                result += ascii(String(first))
                rest = rest.dropFirst()
            }
        }
        return result
    }

    /// Pure ASCII, so that it does not depend on the reader's terminal; other characters become escapes.
    private static func ascii(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.isASCII { text.unicodeScalars.append(scalar) } else if scalar == "…" { text += "..." } else {
                let digits = String(scalar.value, radix: 16, uppercase: true)
                text += "\\[u\(String(repeating: "0", count: max(0, 4 - digits.utf8.count)))\(digits)]"
            }
        }
    }

    static func escaped(_ text: String) -> String {
        let plain = text.reduce(into: "") { $0 += $1 == "\\" ? "\\e" : $1 == "-" ? "\\-" : String($1) }
        return ascii(plain).split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.hasPrefix(".") || line.hasPrefix("'") ? "\\&\(line)" : String(line)
        }.joined(separator: "\n")
    }
}
