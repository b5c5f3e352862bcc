// The coding agents that `rocmforge launch` starts, as data: the program, how to install it, and what makes it use a server
// of ours. Invariant: nothing of the user's own configuration is changed; settings end with the process.

/** The server that a client is to use. */
export interface ClientTarget {
  /** The address without a path: `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The model's name in requests. */
  readonly model: string;
  /** Undefined if the server has not loaded the model yet. */
  readonly contextTokens: number | undefined;
  /** Undefined if the server needs none. */
  readonly apiKey: string | undefined;
}

/** How a client is started. */
export interface ClientSettings {
  /** Variables to set; undefined removes one. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Arguments before those of the user. */
  readonly args: readonly string[];
}

/** A client that can be started. */
export interface LaunchableClient {
  readonly title: string;
  /** The name of its program. */
  readonly program: string;
  /** A command that installs it. */
  readonly install: string;
  settings(target: ClientTarget): ClientSettings;
}

/** The variable in which a client gets the server's API key, if it takes the name of one. */
export const KEY_VARIABLE = "ROCMFORGE_CLIENT_KEY";
/** For clients that insist on a key. */
const NO_KEY = "none-needed";
const PROVIDER = "rocmforge";

/** The largest answer that opencode asks for, and the share of the context that it keeps for it. */
const MAX_OUTPUT_TOKENS = 32_000;
const OUTPUT_SHARE = 1 / 4;

/** The clients by the names that `launch` takes. */
export const CLIENTS: Readonly<Record<string, LaunchableClient>> = {
  claude: {
    title: "Claude Code",
    program: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    settings: ({ url, model, apiKey }) => ({
      environment: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: apiKey ?? NO_KEY,
        // The user's own key is not sent to this server, and no other provider takes precedence over it.
        ANTHROPIC_API_KEY: undefined,
        CLAUDE_CODE_USE_BEDROCK: undefined,
        CLAUDE_CODE_USE_VERTEX: undefined,
        CLAUDE_CODE_USE_FOUNDRY: undefined,
        ANTHROPIC_MODEL: model,
        // Titles, summaries and subagents, which it would ask of other models; and its short names for models, which a
        // served model may have as its own.
        ANTHROPIC_DEFAULT_FABLE_MODEL: model,
        ANTHROPIC_DEFAULT_OPUS_MODEL: model,
        ANTHROPIC_DEFAULT_SONNET_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        ANTHROPIC_SMALL_FAST_MODEL: model,
        CLAUDE_CODE_SUBAGENT_MODEL: model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      },
      args: [],
    }),
  },
  codex: {
    title: "Codex",
    program: "codex",
    install: "npm install -g @openai/codex",
    settings: ({ url, model, contextTokens, apiKey }) => ({
      environment: apiKey === undefined ? {} : { [KEY_VARIABLE]: apiKey },
      args: overrides({
        model,
        model_provider: PROVIDER,
        [`model_providers.${PROVIDER}.name`]: PROVIDER,
        [`model_providers.${PROVIDER}.base_url`]: `${url}/v1`,
        [`model_providers.${PROVIDER}.wire_api`]: "responses",
        ...(apiKey === undefined ? {} : { [`model_providers.${PROVIDER}.env_key`]: KEY_VARIABLE }),
        ...(contextTokens === undefined ? {} : { model_context_window: contextTokens }),
      }),
    }),
  },
  opencode: {
    title: "opencode",
    program: "opencode",
    install: "npm install -g opencode-ai",
    settings: (target) => ({
      environment: {
        // Merged over the user's configuration files.
        OPENCODE_CONFIG_CONTENT: JSON.stringify(openCodeConfig(target)),
        ...(target.apiKey === undefined ? {} : { [KEY_VARIABLE]: target.apiKey }),
      },
      args: [],
    }),
  },
};

/** Codex' options for single values of its configuration, which are TOML: a JSON text or number is valid there. */
function overrides(values: Readonly<Record<string, string | number>>): readonly string[] {
  return Object.entries(values).flatMap(([key, value]) => ["-c", `${key}=${JSON.stringify(value)}`]);
}

function openCodeConfig({ url, model, contextTokens, apiKey }: ClientTarget): object {
  const limit =
    contextTokens === undefined
      ? {}
      : {
          limit: {
            context: contextTokens,
            output: Math.min(MAX_OUTPUT_TOKENS, Math.floor(contextTokens * OUTPUT_SHARE)),
          },
        };
  return {
    $schema: "https://opencode.ai/config.json",
    model: `${PROVIDER}/${model}`,
    small_model: `${PROVIDER}/${model}`,
    provider: {
      [PROVIDER]: {
        npm: "@ai-sdk/openai-compatible",
        name: PROVIDER,
        options: { baseURL: `${url}/v1`, apiKey: apiKey === undefined ? NO_KEY : `{env:${KEY_VARIABLE}}` },
        models: { [model]: { name: model, ...limit } },
      },
    },
  };
}
