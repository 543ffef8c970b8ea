import { existsSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { z } from "zod";
import { isSampleKey, privateKeyOf, readSecrets, SAMPLE_API_KEY_PEPPER } from "./secrets.ts";

const PEPPER_LENGTH_MIN = 32;
const NEW_JWT_KEY =
  `node -p "JSON.stringify(require('node:crypto').generateKeyPairSync('ed25519')` +
  `.privateKey.export({format:'jwk'}))"`;
const NEW_PEPPER = `node -p "require('node:crypto').randomBytes(32).toString('base64url')"`;

export type ProcessRole = "web" | "worker";
export type Secrets = {
  /** Ed25519 private key, PKCS #8 PEM. */
  jwtPrivateKey: string;
  /** The first one hashes, every one verifies. */
  apiKeyPeppers: readonly string[];
};

const url = (...protocols: string[]) =>
  z.string().refine((text) => URL.canParse(text) && protocols.includes(new URL(text).protocol.slice(0, -1)), {
    error: `must be an address that starts with ${protocols.map((name) => `${name}://`).join(" or ")}`,
  });

const whole = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .refine((value) => value >= min && value <= max, { error: `must be from ${min} to ${max}` });

const flag = z.stringbool({ error: "must be on or off" });

/** Splits at commas and drops what is empty. */
const list = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

const isNetwork = (text: string): boolean => {
  const [address = "", bits, ...rest] = text.split("/");
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
};

const jwtPrivateKey = z.string().transform((text, context) => {
  try {
    const key = privateKeyOf(text);
    if (key.asymmetricKeyType === "ed25519") return key.export({ type: "pkcs8", format: "pem" }).toString();
  } catch {
    // Reported below; the parser's own message could quote the key.
  }
  context.addIssue({
    code: "custom",
    message: `must be an Ed25519 private key, PKCS #8 PEM or JWK. Make one: ${NEW_JWT_KEY}`,
  });
  return z.NEVER;
});

/** Every setting, by the name of its variable. */
export const SETTINGS = {
  NODE_ENV: z.string().default("development"),
  MODE: z.enum(["embedded", "cluster"], { error: "must be embedded or cluster" }).default("embedded"),
  ROLES: list
    .pipe(z.array(z.enum(["web", "worker"], { error: "must be web, worker or web,worker" })).min(1))
    .default(["web", "worker"]),
  HOST: z.string().optional(),
  PORT: whole(0, 65_535).default(2567),
  PUBLIC_URL: url("http", "https").optional(),
  TRUSTED_PROXIES: list
    .pipe(
      z.array(
        z.string().refine(isNetwork, { error: "must be addresses or CIDR blocks, such as 10.0.0.0/8" }),
      ),
    )
    .default([]),
  DATA_DIR: z.string().default(join(".laurel", "data")),
  DATABASE_URL: url("postgres", "postgresql").optional(),
  DATABASE_POOL_MAX: whole(1, 1000).default(10),
  REDIS_URL: url("redis", "rediss").optional(),
  REDIS_NAMESPACE: z
    .string()
    .regex(/^[\w-]{1,32}$/, "must be 1 to 32 letters, digits, _ or -")
    .default("laurel"),
  JWT_PRIVATE_KEY: jwtPrivateKey.optional(),
  API_KEY_PEPPERS: list
    .pipe(
      z.array(
        z.string().min(PEPPER_LENGTH_MIN, {
          error: `each must have at least ${PEPPER_LENGTH_MIN} characters. Make one: ${NEW_PEPPER}`,
        }),
      ),
    )
    .optional(),
  DEMO: flag.optional(),
  AUTO_APPROVE_TENANTS: flag.optional(),
  DEFAULT_PLAN: z
    .enum(["FREE", "STARTER", "PRO", "ENTERPRISE"], { error: "must be FREE, STARTER, PRO or ENTERPRISE" })
    .default("ENTERPRISE"),
  LOG_LEVEL: z
    .enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"], {
      error: "must be trace, debug, info, warn, error, fatal or silent",
    })
    .default("info"),
  METRICS_TOKEN: z.string().min(16, "must have at least 16 characters").optional(),
  SHUTDOWN_TIMEOUT_MS: whole(1_000, 600_000).default(30_000),
};

const Settings = z.object(SETTINGS);
type Parsed = z.output<typeof Settings>;
export type Env = Readonly<Record<string, string | undefined>>;
export type Problem = { name: string; message: string };

/** Every problem of the environment at once; the message is meant for a terminal. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    const lines = problems.map(({ name, message }) => `  ${name} ${message}`);
    super(`The configuration has problems:\n${lines.join("\n")}`);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

type Rule = { name: string; breaks: (env: Env) => boolean; message: string };
const isCluster = (env: Env) => env["MODE"] === "cluster";
const isProduction = (env: Env) => env["NODE_ENV"] === "production";
const runsBothRoles = (env: Env) => {
  const named = list.parse(env["ROLES"] ?? "web,worker");
  return named.includes("web") && named.includes("worker");
};

/** What one variable demands of another; judged on the text, so that one bad value hides no other problem. */
const RULES: readonly Rule[] = [
  {
    name: "DATABASE_URL",
    breaks: (env) => isCluster(env) && env["DATABASE_URL"] === undefined,
    message: "is required when MODE=cluster, such as postgres://laurel:password@localhost:5432/laurel",
  },
  {
    name: "REDIS_URL",
    breaks: (env) => isCluster(env) && env["REDIS_URL"] === undefined,
    message: "is required when MODE=cluster, such as redis://localhost:6379",
  },
  {
    name: "ROLES",
    breaks: (env) => !isCluster(env) && !runsBothRoles(env),
    message: "must be web,worker when MODE=embedded, which is one process. Use MODE=cluster to split them",
  },
  {
    name: "PUBLIC_URL",
    breaks: (env) => isProduction(env) && !env["PUBLIC_URL"]?.startsWith("https://"),
    message: "must start with https:// when NODE_ENV=production: set it to the address that clients use",
  },
  {
    name: "JWT_PRIVATE_KEY",
    breaks: (env) => isProduction(env) && isCluster(env) && env["JWT_PRIVATE_KEY"] === undefined,
    message: `is required when NODE_ENV=production and MODE=cluster. Make one: ${NEW_JWT_KEY}`,
  },
  {
    name: "API_KEY_PEPPERS",
    breaks: (env) => isProduction(env) && isCluster(env) && env["API_KEY_PEPPERS"] === undefined,
    message: `is required when NODE_ENV=production and MODE=cluster. Make one: ${NEW_PEPPER}`,
  },
  {
    name: "JWT_PRIVATE_KEY",
    breaks: (env) => isProduction(env) && isSampleKey(env["JWT_PRIVATE_KEY"]),
    message: `is the sample of .env.example, which production refuses. Make your own: ${NEW_JWT_KEY}`,
  },
  {
    name: "API_KEY_PEPPERS",
    breaks: (env) => isProduction(env) && Boolean(env["API_KEY_PEPPERS"]?.includes(SAMPLE_API_KEY_PEPPER)),
    message: `holds the sample of .env.example, which production refuses. Make your own: ${NEW_PEPPER}`,
  },
];

/** The settings that need nothing but the environment. */
export type Settings = Readonly<{
  mode: "embedded" | "cluster";
  isProduction: boolean;
  roles: ReadonlySet<ProcessRole>;
  host: string;
  /** 0 takes a free port. */
  port: number;
  /** Without a slash at the end. */
  publicUrl: string;
  trustedProxies: readonly string[];
  dataDir: string;
  /** Set in cluster mode, undefined in embedded mode. */
  databaseUrl: string | undefined;
  databasePoolMax: number;
  /** Set in cluster mode, undefined in embedded mode. */
  redisUrl: string | undefined;
  redisNamespace: string;
  demo: boolean;
  autoApproveTenants: boolean;
  defaultPlan: "FREE" | "STARTER" | "PRO" | "ENTERPRISE";
  logLevel: Parsed["LOG_LEVEL"];
  metricsToken: string | undefined;
  /** A process that has not stopped by then ends all the same. */
  shutdownTimeoutMs: number;
  /** Remarks on settings that have no effect, to be logged at the start. */
  remarks: readonly string[];
  givenSecrets: Readonly<Partial<Secrets>>;
}>;

/** All that a process is told from outside. */
export type Config = Settings & { readonly secrets: Readonly<Secrets> };

const networkOf = (env: Parsed) => ({
  host: env.HOST ?? (env.MODE === "embedded" ? "127.0.0.1" : "0.0.0.0"),
  port: env.PORT,
  publicUrl: (env.PUBLIC_URL ?? `http://localhost:${env.PORT}`).replace(/\/+$/, ""),
  trustedProxies: env.TRUSTED_PROXIES,
});

const storesOf = (env: Parsed) => ({
  dataDir: env.DATA_DIR,
  databaseUrl: env.MODE === "cluster" ? env.DATABASE_URL : undefined,
  databasePoolMax: env.DATABASE_POOL_MAX,
  redisUrl: env.MODE === "cluster" ? env.REDIS_URL : undefined,
  redisNamespace: env.REDIS_NAMESPACE,
});

const remarksOn = (env: Parsed): string[] =>
  (["DATABASE_URL", "REDIS_URL"] as const)
    .filter((name) => env.MODE === "embedded" && env[name] !== undefined)
    .map((name) => `${name} is set but not used: MODE is embedded`);

/**
 * Reads and checks the environment; an empty variable counts as unset.
 * @throws ConfigError with every problem, each naming its variable and the remedy; no value is quoted.
 */
export const readConfig = (env: Env): Settings => {
  const given: Env = Object.fromEntries(Object.entries(env).filter(([, value]) => value?.trim()));
  const parsed = Settings.safeParse(given);
  const problems: Problem[] = [
    ...(parsed.error?.issues ?? []).map(({ path, message }) => ({ name: String(path[0]), message })),
    ...RULES.filter((rule) => rule.breaks(given)).map(({ name, message }) => ({ name, message })),
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const { data } = parsed;
  return Object.freeze({
    mode: data.MODE,
    isProduction: data.NODE_ENV === "production",
    roles: new Set(data.ROLES),
    ...networkOf(data),
    ...storesOf(data),
    // Production shows no password and no key that nobody asked for.
    demo: data.DEMO ?? (data.MODE === "embedded" && data.NODE_ENV !== "production"),
    autoApproveTenants: data.AUTO_APPROVE_TENANTS ?? data.MODE === "embedded",
    defaultPlan: data.DEFAULT_PLAN,
    logLevel: data.LOG_LEVEL,
    metricsToken: data.METRICS_TOKEN,
    shutdownTimeoutMs: data.SHUTDOWN_TIMEOUT_MS,
    remarks: remarksOn(data),
    givenSecrets: Object.freeze({
      ...(data.JWT_PRIVATE_KEY === undefined ? {} : { jwtPrivateKey: data.JWT_PRIVATE_KEY }),
      ...(data.API_KEY_PEPPERS === undefined ? {} : { apiKeyPeppers: data.API_KEY_PEPPERS }),
    }),
  });
};

/**
 * Adds the secrets: those of the environment, and for those it lacks the ones kept in DATA_DIR/secrets.json
 * (mode 0600), which is made on the first start. All processes that share a data directory share them.
 */
export const loadSecrets = async (settings: Settings): Promise<Config> => {
  const { jwtPrivateKey: key, apiKeyPeppers: peppers } = settings.givenSecrets;
  const secrets =
    key !== undefined && peppers !== undefined
      ? { jwtPrivateKey: key, apiKeyPeppers: peppers }
      : { ...(await readSecrets(settings.dataDir)), ...settings.givenSecrets };
  return Object.freeze({ ...settings, secrets: Object.freeze(secrets) });
};

/** The settings of this process, for commands that need no secrets. @throws ConfigError */
export const loadSettings = (): Settings => readConfig(environment());

/** The configuration of this process. */
export const loadConfig = async (): Promise<Config> => loadSecrets(loadSettings());

/**
 * The variables of the process; those that it lacks come from `.env` of the working directory, if there is
 * one.
 */
const environment = (): Env => {
  if (existsSync(".env")) process.loadEnvFile(".env");
  return process.env;
};
