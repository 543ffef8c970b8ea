import { existsSync } from "node:fs";
import { z } from "zod";
import { type BillingSettings, billingOf } from "./config/billing.ts";
import { domainsOf, type DomainSettings } from "./config/domains.ts";
import { outboundOf, type OutboundSettings } from "./config/outbound.ts";
import { type PasskeySettings, passkeysOf } from "./config/passkeys.ts";
import type { Env } from "./config/rule.ts";
import { RULES } from "./config/rules.ts";
import { SETTINGS } from "./config/settings.ts";
import { type StoreSettings, storesOf } from "./config/stores.ts";
import { type WarehouseSettings, warehouseOf } from "./config/warehouse.ts";
import type { PasswordCost } from "./domain/accounts/auth/passwords.ts";
import type { MailMode } from "./domain/accounts/email/mail.ts";
import type { Plan } from "./domain/kernel/caller.ts";
import { problemsOf } from "./domain/kernel/zod-problems.ts";
import { readSecrets } from "./secrets.ts";
import { VERSION } from "./version.ts";

export type { OutboundSettings } from "./config/outbound.ts";
export type { Env } from "./config/rule.ts";
export { SETTINGS } from "./config/settings.ts";

export type ProcessRole = "web" | "worker";
export type Secrets = {
  /** Ed25519 private key, PKCS #8 PEM. */
  jwtPrivateKey: string;
  /** The first one hashes, all verify. */
  apiKeyPeppers: readonly string[];
  /** The first one encrypts, all decrypt. */
  encryptionKeys: readonly string[];
};

const Settings = z.object(SETTINGS);
type Parsed = z.output<typeof Settings>;
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

export type MailSettings = {
  mode: MailMode;
  smtpUrl: string | undefined;
  from: string;
};

export type CaptchaSettings = {
  provider: Parsed["CAPTCHA_PROVIDER"];
  siteKey: string | undefined;
  secret: string | undefined;
  /** The host on which a token must have been issued. */
  hostname: string | undefined;
  /** Overrides the provider's own address. */
  verifyUrl: string | undefined;
};

type OAuthClient = { clientId: string; clientSecret: string };
export type OAuthSettings = {
  google: (OAuthClient & { issuer: string }) | undefined;
  /** Both URLs without a trailing slash. */
  github: (OAuthClient & { url: string; apiUrl: string }) | undefined;
  /** Redirect addresses allowed for every tenant, besides the tenant's own list. */
  redirectUris: readonly string[];
};

export type StoreName = "DATABASE_URL" | "REDIS_URL";

/** The settings that need nothing but the environment. */
export type Settings = Readonly<
  StoreSettings & {
    /** Version of Laurel. */
    version: string;
    mode: "embedded" | "cluster";
    isProduction: boolean;
    roles: ReadonlySet<ProcessRole>;
    host: string;
    /** 0 selects a free port. */
    port: number;
    /** Where the other processes of a cluster reach the rooms of this one; port 0 selects a free one. */
    internal: { host: string; port: number };
    /** Where this process alone shows its health and metrics, if anywhere; port 0 selects a free one. */
    operators: { host: string; port: number } | undefined;
    /** Without a trailing slash. */
    publicUrl: string;
    /** Base URL of links in mails. Without a trailing slash. */
    consoleUrl: string;
    trustedProxies: readonly string[];
    demo: boolean;
    autoApproveTenants: boolean;
    defaultPlan: Plan;
    /** How plans are sold; undefined where none are. */
    billing: BillingSettings | undefined;
    mail: MailSettings;
    /** Whether some operations require a verified address. */
    isVerifiedEmailRequired: boolean;
    disposableEmail: { allow: readonly string[]; deny: readonly string[] };
    captcha: CaptchaSettings;
    oauth: OAuthSettings;
    superadminAllowCidrs: readonly string[];
    /** Whether super-admins need a second factor. */
    isSuperadminMfaRequired: boolean;
    passkeys: PasskeySettings;
    outbound: OutboundSettings;
    /** DNS servers, with ports; empty: the system's. */
    dnsServers: readonly string[];
    /** Undefined: there are none. */
    domains: DomainSettings | undefined;
    /** Undefined: there is none. */
    warehouse: WarehouseSettings | undefined;
    logLevel: Parsed["LOG_LEVEL"];
    metricsToken: string | undefined;
    /** A process that has not stopped within this time is terminated. */
    shutdownTimeoutMs: number;
    /** How long a web process that stops goes on, not ready, before it closes anything. */
    shutdownDelayMs: number;
    /** Stores that are set while MODE is not: whoever set them probably meant cluster mode. */
    unusedStores: readonly StoreName[];
    /** Remarks on settings that have no effect, to be logged at the start. */
    remarks: readonly string[];
    givenSecrets: Readonly<Partial<Secrets>>;
  }
>;

/** Validated configuration of a process. */
export type Config = Settings & {
  readonly secrets: Readonly<Secrets>;
  /** Of a server that starts in a test; no variable sets it, so that none weakens stored passwords. */
  readonly passwordCost?: PasswordCost;
};

const withoutSlash = (url: string): string => url.replace(/\/+$/, "");

/** Processes that a supervisor starts from one line of configuration differ by their number. */
const numberedPort = (port: number, { NODE_APP_INSTANCE }: Parsed): number =>
  port === 0 ? 0 : port + NODE_APP_INSTANCE;

const networkOf = (env: Parsed) => ({
  host: env.HOST ?? (env.MODE === "embedded" ? "127.0.0.1" : "0.0.0.0"),
  port: env.PORT,
  internal: {
    host: env.INTERNAL_HOST,
    port: numberedPort(env.INTERNAL_PORT, env),
  },
  operators:
    env.METRICS_PORT === undefined
      ? undefined
      : { host: env.METRICS_HOST, port: numberedPort(env.METRICS_PORT, env) },
  publicUrl: withoutSlash(env.PUBLIC_URL ?? `http://localhost:${env.PORT}`),
  consoleUrl: withoutSlash(env.CONSOLE_URL ?? env.PUBLIC_URL ?? `http://localhost:${env.PORT}`),
  trustedProxies: env.TRUSTED_PROXIES,
});

const mailOf = (env: Parsed): MailSettings => ({
  mode: env.EMAIL_MODE ?? (env.SMTP_URL === undefined ? "log" : "smtp"),
  smtpUrl: env.SMTP_URL,
  from: env.MAIL_FROM ?? "Laurel <laurel@localhost>",
});

const captchaOf = (env: Parsed): CaptchaSettings => ({
  provider: env.CAPTCHA_PROVIDER,
  siteKey: env.CAPTCHA_SITE_KEY,
  secret: env.CAPTCHA_SECRET,
  hostname: env.CAPTCHA_HOSTNAME,
  verifyUrl: env.CAPTCHA_VERIFY_URL,
});

const clientOf = (clientId: string | undefined, clientSecret: string | undefined): OAuthClient | undefined =>
  clientId === undefined || clientSecret === undefined ? undefined : { clientId, clientSecret };

const oauthOf = (env: Parsed): OAuthSettings => {
  const google = clientOf(env.OAUTH_GOOGLE_CLIENT_ID, env.OAUTH_GOOGLE_CLIENT_SECRET);
  const github = clientOf(env.OAUTH_GITHUB_CLIENT_ID, env.OAUTH_GITHUB_CLIENT_SECRET);
  return {
    google: google && { ...google, issuer: env.OAUTH_GOOGLE_ISSUER },
    github: github && {
      ...github,
      url: withoutSlash(env.OAUTH_GITHUB_URL),
      apiUrl: withoutSlash(env.OAUTH_GITHUB_API_URL),
    },
    redirectUris: env.OAUTH_REDIRECT_URIS,
  };
};

const accountsOf = (env: Parsed) => ({
  // Production has no demo account with a known password unless somebody asks for it.
  demo: env.DEMO ?? (env.MODE === "embedded" && env.NODE_ENV !== "production"),
  autoApproveTenants: env.AUTO_APPROVE_TENANTS ?? env.MODE === "embedded",
  // Where plans are sold, everybody begins without one.
  defaultPlan: env.DEFAULT_PLAN ?? (env.STRIPE_SECRET_KEY === undefined ? "ENTERPRISE" : "FREE"),
  billing: billingOf(env),
  mail: mailOf(env),
  isVerifiedEmailRequired: env.VERIFIED_EMAIL_REQUIRED ?? mailOf(env).mode === "smtp",
  disposableEmail: { allow: env.DISPOSABLE_EMAIL_ALLOW, deny: env.DISPOSABLE_EMAIL_DENY },
  superadminAllowCidrs: env.SUPERADMIN_ALLOW_CIDRS,
  isSuperadminMfaRequired: env.SUPERADMIN_MFA_REQUIRED,
  passkeys: passkeysOf(env, networkOf(env).consoleUrl),
});

const secretsIn = (env: Parsed): Readonly<Partial<Secrets>> =>
  Object.freeze({
    ...(env.JWT_PRIVATE_KEY === undefined ? {} : { jwtPrivateKey: env.JWT_PRIVATE_KEY }),
    ...(env.API_KEY_PEPPERS === undefined ? {} : { apiKeyPeppers: env.API_KEY_PEPPERS }),
    ...(env.ENCRYPTION_KEYS === undefined ? {} : { encryptionKeys: env.ENCRYPTION_KEYS }),
  });

/** MODE=embedded that was written out is what was meant, whatever else the environment has. */
const unusedStoresIn = (given: Env): StoreName[] =>
  given["MODE"] === undefined
    ? (["DATABASE_URL", "REDIS_URL"] as const).filter((name) => given[name] !== undefined)
    : [];

const remarksOn = (stores: readonly StoreName[]): string[] =>
  stores.map((name) => `${name} is set but not used: set MODE=cluster to use it, or MODE=embedded`);

/**
 * Reads and validates the environment; an empty variable counts as unset.
 * @throws ConfigError with every problem, each naming its variable and the remedy; no value is quoted.
 */
export const readConfig = (env: Env): Settings => {
  const given: Env = Object.fromEntries(Object.entries(env).filter(([, value]) => value?.trim()));
  const parsed = Settings.safeParse(given);
  const problems: Problem[] = [
    ...(parsed.error ? problemsOf(parsed.error, "") : []).map(({ field, message }) => ({
      name: field.split(".", 1)[0]!,
      message,
    })),
    ...RULES.filter((rule) => rule.breaks(given)).map(({ name, message }) => ({ name, message })),
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const { data } = parsed;
  return Object.freeze({
    version: VERSION,
    mode: data.MODE,
    isProduction: data.NODE_ENV === "production",
    roles: new Set(data.ROLES),
    ...networkOf(data),
    ...storesOf(data),
    ...accountsOf(data),
    captcha: captchaOf(data),
    oauth: oauthOf(data),
    outbound: outboundOf(data),
    dnsServers: data.DNS_SERVERS,
    domains: domainsOf(data, networkOf(data)),
    warehouse: warehouseOf(data),
    logLevel: data.LOG_LEVEL,
    metricsToken: data.METRICS_TOKEN,
    shutdownTimeoutMs: data.SHUTDOWN_TIMEOUT_MS,
    shutdownDelayMs: data.SHUTDOWN_DELAY_MS,
    unusedStores: unusedStoresIn(given),
    remarks: remarksOn(unusedStoresIn(given)),
    givenSecrets: secretsIn(data),
  });
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
