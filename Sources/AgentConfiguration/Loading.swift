extension AgentSettings {
    /// What command line options put in the place of the file's values. Relative paths are relative to the current folder.
    package struct Overrides: Sendable, Equatable {
        /// `--data`
        package var data: String?
        /// `--plugins`
        package var plugins: String?

        package init(data: String? = nil, plugins: String? = nil) {
            self.data = data
            self.plugins = plugins
        }
    }

    /// Reads a configuration file.
    /// - Parameter environment: what `${NAME}` looks up; nil: the process's environment.
    /// - Throws: everything that is wrong with it, in the order of the file.
    package static func load(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: nil)
    }

    /// Reads as much of a configuration file as is right: for `check`, which names everything at once.
    /// - Parameter environment: what `${NAME}` looks up; nil: the process's environment.
    /// - Returns: what could be read (nil: nothing), and what is wrong (nil: nothing).
    package static func examine(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) -> (settings: AgentSettings?, problems: ConfigurationProblems?) {
        do throws(ConfigurationProblems) {
            return read(try bytes(of: path), path, Paths.folder(of: path), overrides, environment, only: nil)
        } catch { return (nil, error) }
    }

    /// Reads only what finds a running agent and its data folder: `data`. The agent has the rest, and secrets that whoever asks it need
    /// not have; and a file that is being edited must not keep its operator from asking.
    /// - Throws: what is wrong with it, or with the file as YAML.
    package static func location(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: ["data"])
    }

    /// Reads only what tells of the listeners and of where the agent is: its operator's user need not have the replicators' secrets.
    /// - Throws: what is wrong with it, or with the file as YAML.
    package static func listeners(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: ["data", "plugins", "databases", "listeners"])
    }

    /// Reads only what tells of the fleet: whoever publishes need not have the secrets of the rest.
    /// - Throws: what is wrong with it, or with the file as YAML.
    package static func fleet(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: ["data", "databases", "fleet"])
    }

    private static func load(
        _ path: String, _ overrides: Overrides, _ environment: [String: String]?, only keys: [String]?
    ) throws(ConfigurationProblems) -> AgentSettings {
        try parse(try bytes(of: path), path, Paths.folder(of: path), overrides, environment, only: keys)
    }

    private static func bytes(of path: String) throws(ConfigurationProblems) -> [UInt8] {
        do {
            // Pipes are welcome here: --config <(template).
            return try SmallFile.read(path, limit: Limits.fileBytes, regularOnly: false)
        } catch {
            let text = error.text(limit: Limits.fileBytes)
            throw ConfigurationProblems([ConfigurationProblem(file: path, line: 0, column: 0, message: "cannot be read: \(text)")])
        }
    }

    /// Reads a configuration that is already in memory.
    /// - Parameters:
    ///   - file: its name in problems.
    ///   - folder: absolute; relative paths resolve against it.
    package static func parse(
        _ bytes: [UInt8], file: String, folder: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try parse(bytes, file, folder, overrides, environment, only: nil)
    }

    private static func parse(
        _ bytes: [UInt8], _ file: String, _ folder: String, _ overrides: Overrides, _ environment: [String: String]?, only keys: [String]?
    ) throws(ConfigurationProblems) -> AgentSettings {
        let (settings, problems) = read(bytes, file, folder, overrides, environment, only: keys)
        if let problems { throw problems }
        // Without problems there is something.
        return settings ?? AgentSettings()
    }

    private static func read(
        _ bytes: [UInt8], _ file: String, _ folder: String, _ overrides: Overrides, _ environment: [String: String]?, only keys: [String]?
    ) -> (AgentSettings?, ConfigurationProblems?) {
        var problems = ProblemList(file: file)
        let root = YAMLReader.read(bytes, file: file, problems: &problems)
        // Duplicate keys alone leave a tree worth checking further; a syntax error leaves none.
        if root == nil, let error = problems.error { return (nil, error) }

        var base = ConfigurationBase(file: file, folder: folder, overrides: overrides)
        base.named = root?.entries?.map(\.key) ?? []
        base.namesDatabases = root?.entries?.contains { $0.key == "databases" && $0.value.entries != nil } ?? false
        if var node = root {
            if let keys, let entries = node.entries { node.content = .mapping(entries.filter { keys.contains($0.key) }) }
            var expansion = Expansion(environment: environment, folder: folder)
            expansion.expand(&node, &problems)
            base.root = node
        }
        var (settings, error) = base.settings(problems)
        if error == nil, keys == nil, settings.fleet?.acceptConfig.isEmpty == false { settings.base = base }
        return (settings, error)
    }

    /// What `nightjar run` uses without a configuration file: data in `./nightjar-data`, plugins in `./plugins` if there is
    /// such a folder, the database `main`, and a listener on 127.0.0.1:4984. That one speaks plain HTTP: it cannot be
    /// reached from outside, and no client would trust a certificate made up for it.
    package static func embeddedDefault(data: String? = nil, plugins: String? = nil) -> AgentSettings {
        var settings = AgentSettings()
        var database = DatabaseSettings()
        database.name = Located("main")
        settings.databases = [database]
        var listener = ListenerSettings()
        listener.name = Located("default")
        listener.databases = [Located("main")]
        listener.interface = Located("127.0.0.1")
        listener.disableTLS = Located(true)
        settings.listeners = [listener]
        settings.fillPaths(Overrides(data: data, plugins: plugins))
        return settings
    }

    fileprivate mutating func fillPaths(_ overrides: Overrides) {
        if let path = overrides.data { data = Located(Paths.resolve(path, in: Paths.currentFolder)) }
        if data.value.isEmpty { data = Located(Paths.resolve("nightjar-data", in: folder)) }
        if let path = overrides.plugins { plugins = Located(Paths.resolve(path, in: Paths.currentFolder)) }
        if plugins == nil {
            let beside = Paths.resolve("plugins", in: folder)
            if Paths.isFolder(beside) { plugins = Located(beside) }
        }
    }
}

extension ConfigurationBase {
    /// - Parameter problems: what was wrong before.
    func settings(_ problems: ProblemList) -> (AgentSettings, ConfigurationProblems?) {
        var settings = AgentSettings()  // an empty file means all defaults
        var problems = problems
        if let root { problems.noteExpansions(in: root) }
        var reading = Reading(file: file, folder: folder, problems: problems)
        if let root, let read = AgentSettings.read(root, &reading) { settings = read }
        settings.check(references: &reading)
        settings.namesDatabases = namesDatabases
        settings.unread = Set(
            (settings.data.value.isEmpty && named.contains("data") && overrides.data == nil ? ["data"] : [])
                + (settings.plugins == nil && named.contains("plugins") && overrides.plugins == nil ? ["plugins"] : []))
        settings.file = file
        settings.folder = folder
        settings.fillPaths(overrides)
        return (settings, reading.problems.error)
    }
}
