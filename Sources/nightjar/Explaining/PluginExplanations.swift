extension Explanation {
    /// Kinds of failed calls, in errors, events and `nightjar_plugin_errors_total`.
    static let ofPlugins = [
        Explanation(
            "plugin_error", "The plugin raised an error.",
            "The message has file and line: often the cause is a field that some documents do not have, or a misspelt member of ctx or conflict. Fix it; nightjar plugin run tries the plugin on a document."),
        Explanation(
            "plugin_timeout", "A call used up its CPU time (50 ms; resolvers and loading 250 ms) or its instructions.",
            "Look for an endless loop or a backtracking pattern; plugin_limits raises the limit of one plugin."),
        Explanation(
            "plugin_memory", "A plugin's memory (16 MiB) is used up.",
            "Keep less in state and build shorter strings; plugin_limits raises the limit of one plugin."),
        Explanation(
            "plugin_result", "A hook returned what its contract does not allow, often nothing at all.",
            "plugins/README.md says what each hook returns: a filter has to return something on every path, true or false; any other value but nil lets the document pass."),
        Explanation(
            "plugin_load", "A plugin's file does not compile, reads an undefined variable, or does not return a table of hooks.",
            "nightjar plugin check has file and line."),
    ]
}

extension Explanation {
    /// Exit statuses of the commands.
    static let ofExits = [
        Explanation("exit/0", "All is well.", "Nothing."),
        Explanation(
            "exit/1",
            "The command failed; or it checks for problems and found one (doctor, plugin check, test and reload, identity list, conflicts replay); or what was asked "
                + "for does not exist. What status and lists of held, refused or pending documents show is not a failure: they end with 0.",
            "Standard error says what. For nightjar doctor: a line with the verdict \"wrong\". To see whether all is well, use nightjar status or /health."),
        Explanation(
            "exit/3", "nightjar doc why: nothing here knows the id (unknown).", "Compare it letter for letter with what nightjar doc list shows."),
        Explanation("exit/64", "Wrong usage: an option or argument that the command does not have.", "nightjar help COMMAND."),
        Explanation(
            "exit/75", "run was told to stop but had not stopped after ten seconds, so it exited by force. What was acknowledged is safe.",
            "Start it again. If it happens often, send a support bundle: nightjar support-bundle."),
        Explanation("exit/78", "The configuration is wrong.", "Each mistake is on standard error with file, line and column: nightjar check."),
    ]
}
