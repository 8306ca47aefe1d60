import AgentConfiguration
import ArgumentParser

/// A command that does not exist. The parser alone would complain about the first option behind it, which the command that was meant does have.
enum UnknownCommand {
    /// Says which word of a command line names no command; nil if none does.
    static func refusal(_ words: [String], of root: any ParsableCommand.Type) -> String? {
        var command: any ParsableCommand.Type = root
        var path = root._commandName
        for word in words.first == "help" ? words.dropFirst() : words[...] {
            let known = command.configuration.subcommands
            guard !known.isEmpty, command.configuration.defaultSubcommand == nil, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = known.first(where: { $0._commandName == word || $0.configuration.aliases.contains(word) }) else {
                let hint = NearestName.hint(for: word, among: known.map { $0._commandName }, otherwise: "there are")
                return "there is no command \"\(path) \(TextTable.printable(word))\"\(hint)\n  See '\(path) --help' for more information."
            }
            command = next
            path += " \(next._commandName)"
        }
        return nil
    }
}
