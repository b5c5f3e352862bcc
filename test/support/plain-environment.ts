// Before each test file: what the commands of a test read from the environment is what the test sets, and no setting of
// the developer's own shell or of the service that runs the tests.

/** Terminals, and settings of other programs that this package reads too. */
const FOREIGN = /^(?:COLUMNS|LINES|NO_COLOR|FORCE_COLOR|TMUX|(?:HF|HUGGING_FACE|OLLAMA|ANTHROPIC|OPENAI)_\w+)$/;
const OWN = new Set(["ROCMFORGE_API_KEYS", "ROCMFORGE_MODEL_CACHE"]);

for (const name of Object.keys(process.env)) if (FOREIGN.test(name) || OWN.has(name)) delete process.env[name];
