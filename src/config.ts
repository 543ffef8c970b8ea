import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type Env, RULES } from "./config/rules.ts";
import {
  billingOf,
  captchaOf,
  domainsOf,
  mailOf,
  networkOf,
  oauthOf,
  outboundOf,
  type Parsed,
  passkeysOf,
  storesOf,
  warehouseOf,
} from "./config/sections.ts";
import { SETTINGS } from "./config/settings.ts";
import type { PasswordCost } from "./domain/accounts/auth/passwords.ts";
import { problemsOf } from "./domain/kernel/zod-problems.ts";
import { readSecrets } from "./secrets.ts";
import { VERSION } from "./version.ts";

export type { Env } from "./config/rules.ts";

export type Secrets = {
  /** Ed25519 private key, PKCS #8 PEM. */
  jwtPrivateKey: string;
  /** The first one hashes, all verify. */
  apiKeyPeppers: readonly string[];
  /** The first one encrypts, all decrypt. */
  encryptionKeys: readonly string[];
};

export type Problem = { name: string; message: string };

/** All problems of the environment at once; the message is meant for a terminal. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    const lines = problems.map(({ name, message }) => `  ${name} ${message}`);
    super(`The configuration has problems:\n${lines.join("\n")}`);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** The settings that need nothing but the environment. */
export type Settings = Readonly<ReturnType<typeof settingsOf>>;

/** Validated configuration of a process. */
export type Config = Settings & {
  readonly secrets: Readonly<Secrets>;
  /** Of a server that starts in a test; no variable sets it, so that none weakens stored passwords. */
  readonly passwordCost?: PasswordCost;
};

const secretsIn = (env: Parsed): Readonly<Partial<Secrets>> =>
  Object.freeze({
    ...(env.JWT_PRIVATE_KEY === undefined ? {} : { jwtPrivateKey: env.JWT_PRIVATE_KEY }),
    ...(env.API_KEY_PEPPERS === undefined ? {} : { apiKeyPeppers: env.API_KEY_PEPPERS }),
    ...(env.ENCRYPTION_KEYS === undefined ? {} : { encryptionKeys: env.ENCRYPTION_KEYS }),
  });

/** MODE=embedded that was written out is what was meant, whatever else the environment has. */
const unusedStoresIn = (given: Env) =>
  given["MODE"] === undefined
    ? (["DATABASE_URL", "REDIS_URL"] as const).filter((name) => given[name] !== undefined)
    : [];

const settingsOf = (env: Parsed, given: Env) => ({
  version: VERSION,
  mode: env.MODE,
  isProduction: env.NODE_ENV === "production",
  roles: new Set(env.ROLES) as ReadonlySet<"web" | "worker">,
  ...networkOf(env),
  ...storesOf(env),
  /** The files of the console. */
  consoleDir: join(import.meta.dirname, "../console/dist"),
  /** Whether a start builds the console where its sources have changed. */
  isConsoleBuilt: env.CONSOLE_BUILD ?? env.NODE_ENV !== "production",
  // Production has no demo account with a known password unless somebody asks for it.
  demo: env.DEMO ?? (env.MODE === "embedded" && env.NODE_ENV !== "production"),
  autoApproveTenants: env.AUTO_APPROVE_TENANTS ?? env.MODE === "embedded",
  // Where plans are sold, everybody begins without one.
  defaultPlan: env.DEFAULT_PLAN ?? (env.STRIPE_SECRET_KEY === undefined ? "ENTERPRISE" : "FREE"),
  billing: billingOf(env),
  mail: mailOf(env),
  /** Whether some operations require a verified address. */
  isVerifiedEmailRequired: env.VERIFIED_EMAIL_REQUIRED ?? mailOf(env).mode === "smtp",
  disposableEmail: { allow: env.DISPOSABLE_EMAIL_ALLOW, deny: env.DISPOSABLE_EMAIL_DENY },
  superadminAllowCidrs: env.SUPERADMIN_ALLOW_CIDRS,
  /** Whether super-admins need a second factor. */
  isSuperadminMfaRequired: env.SUPERADMIN_MFA_REQUIRED,
  passkeys: passkeysOf(env),
  captcha: captchaOf(env),
  oauth: oauthOf(env),
  outbound: outboundOf(env),
  /** DNS servers, with ports; empty: the system's. */
  dnsServers: env.DNS_SERVERS,
  domains: domainsOf(env),
  warehouse: warehouseOf(env),
  logLevel: env.LOG_LEVEL,
  metricsToken: env.METRICS_TOKEN,
  /** A process that has not stopped within this time is terminated. */
  shutdownTimeoutMs: env.SHUTDOWN_TIMEOUT_MS,
  /** How long a web process that stops goes on, not ready, before it closes anything. */
  shutdownDelayMs: env.SHUTDOWN_DELAY_MS,
  /** Stores that are set while MODE is not: whoever set them probably meant cluster mode. */
  unusedStores: unusedStoresIn(given),
  /** Remarks on settings that have no effect, to be logged at the start. */
  remarks: unusedStoresIn(given).map(
    (name) => `${name} is set but not used: set MODE=cluster to use it, or MODE=embedded`,
  ),
  givenSecrets: secretsIn(env),
});

/**
 * Reads and validates the environment; an empty variable counts as unset.
 * @throws ConfigError with every problem, each naming its variable and the remedy; no value is quoted.
 */
export const readConfig = (env: Env): Settings => {
  const given: Env = Object.fromEntries(Object.entries(env).filter(([, value]) => value?.trim()));
  const parsed = z.object(SETTINGS).safeParse(given);
  const problems: Problem[] = [
    ...(parsed.error ? problemsOf(parsed.error, "") : []).map(({ field, message }) => ({
      name: field.split(".", 1)[0]!,
      message,
    })),
    ...RULES.filter((rule) => rule.breaks(given)).map(({ name, message }) => ({ name, message })),
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(settingsOf(parsed.data, given));
};

/**
 * Adds the secrets: those of the environment, and for missing ones those kept in DATA_DIR/secrets.json (mode
 * 0600), which is created on the first start. All processes that share a data directory share them.
 */
export const loadSecrets = async (settings: Settings): Promise<Config> => {
  const { jwtPrivateKey, apiKeyPeppers, encryptionKeys } = settings.givenSecrets;
  const secrets =
    jwtPrivateKey !== undefined && apiKeyPeppers !== undefined && encryptionKeys !== undefined
      ? { jwtPrivateKey, apiKeyPeppers, encryptionKeys }
      : { ...(await readSecrets(settings.dataDir)), ...settings.givenSecrets };
  return Object.freeze({ ...settings, secrets: Object.freeze(secrets) });
};

/** Loads the settings of this process, for commands that need no secrets. @throws ConfigError */
export const loadSettings = (): Settings => readConfig(environment());

/** How long one process waits for another's answer about a seat, in ms. */
const IPC_TIMEOUT_MS = 500;

/** Loads the configuration of this process. Colyseus must not be loaded before. */
export const loadConfig = async (): Promise<Config> => {
  // Colyseus reads its own settings once, when it is loaded.
  process.env["COLYSEUS_PRESENCE_SHORT_TIMEOUT"] ??= String(IPC_TIMEOUT_MS);
  return loadSecrets(loadSettings());
};

/**
 * Returns the process's environment; variables that it lacks come from `.env` of the working directory, if
 * present.
 */
const environment = (): Env => {
  if (existsSync(".env")) process.loadEnvFile(".env");
  return process.env;
};
