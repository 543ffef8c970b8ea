import { isIP } from "node:net";
import { join } from "node:path";
import { z } from "zod";
import { CAPTCHA_PROVIDERS } from "../domain/accounts/auth/one-time-secrets.ts";
import { MAIL_MODES } from "../domain/accounts/email/mail.ts";
import { networkOf } from "../domain/kernel/networks.ts";
import { PLANS } from "../domain/kernel/caller.ts";
import { INTERVALS, type PriceOf, SOLD_PLANS } from "../domain/accounts/billing/provider.ts";
import { privateKeyOf } from "../secrets.ts";

/** The default of PORT. */
export const DEFAULT_PORT = 2_567;
/** The directory of the default certificate authority. */
export const LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory";
/** Minimum length of a pepper or an encryption key. */
const SECRET_LENGTH_MIN = 32;
export const NEW_JWT_KEY =
  `node -p "JSON.stringify(require('node:crypto').generateKeyPairSync('ed25519')` +
  `.privateKey.export({format:'jwk'}))"`;
/** Command that generates a pepper or an encryption key. */
export const NEW_SECRET = `node -p "require('node:crypto').randomBytes(32).toString('base64url')"`;

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

/** Splits at commas and drops empty items. */
export const list = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

const jwtPrivateKey = z.string().transform((text, context) => {
  try {
    const key = privateKeyOf(text);
    if (key.asymmetricKeyType === "ed25519") return key.export({ type: "pkcs8", format: "pem" });
  } catch {
    // Reported below; the parser's own message could quote the key.
  }
  context.addIssue({
    code: "custom",
    message: `must be an Ed25519 private key, PKCS #8 PEM or JWK. Make one: ${NEW_JWT_KEY}`,
  });
  return z.NEVER;
});

const secretTexts = list.pipe(
  z.array(
    z.string().min(SECRET_LENGTH_MIN, {
      error: `each must have at least ${SECRET_LENGTH_MIN} characters. Make one: ${NEW_SECRET}`,
    }),
  ),
);

const networks = list.pipe(
  z.array(
    z.string().refine((text) => networkOf(text) !== undefined, {
      error: "must be addresses or CIDR blocks, such as 10.0.0.0/8",
    }),
  ),
);

const someNetworks = networks.refine((all) => all.every((text) => networkOf(text)?.bits !== 0), {
  error: "must not be all addresses: list the networks that webhooks may reach, such as 10.1.2.0/24",
});

/** Addresses of DNS servers, as node:dns takes them. */
const nameServers = list.pipe(
  z.array(
    z
      .string()
      .refine((text) => isIP(text.replace(/^\[(.*)\](:\d+)?$/, "$1").replace(/^([\d.]+):\d+$/, "$1")) !== 0, {
        error: "must be IP addresses of DNS servers, with a port where it is not 53, such as 10.0.0.2:5353",
      }),
  ),
);

const ports = list.pipe(z.array(whole(1, 65_535)).min(1));

const addresses = list.pipe(z.array(url("http", "https")));

const PRICE = new RegExp(
  `^(?<plan>${SOLD_PLANS.join("|")})_(?<interval>${INTERVALS.join("|")})=(?<priceId>price_\\w{1,200})$`,
  "i",
);

/** Parses `STARTER_MONTHLY=price_…,PRO_YEARLY=price_…`. */
const prices = list.transform((items, context) =>
  items.flatMap((item) => {
    const found = PRICE.exec(item)?.groups;
    if (found) {
      const { plan = "", interval = "", priceId = "" } = found;
      return [{ plan: plan.toUpperCase(), interval: interval.toLowerCase(), priceId } as PriceOf];
    }
    context.addIssue({
      code: "custom",
      message: "must be prices of plans, such as STARTER_MONTHLY=price_1Abc,PRO_YEARLY=price_1Def",
    });
    return [];
  }),
);

/** A directory of this machine, absolute; or a bucket, with a prefix of plain characters. */
const WAREHOUSE = /^(file:\/\/\/[^?#]+|s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w.=-]+)*\/?)$/;

/** Every setting, by the name of its variable. */
export const SETTINGS = {
  NODE_ENV: z.string().default("development"),
  MODE: z.enum(["embedded", "cluster"], { error: "must be embedded or cluster" }).default("embedded"),
  ROLES: list
    .pipe(z.array(z.enum(["web", "worker"], { error: "must be web, worker or web,worker" })).min(1))
    .default(["web", "worker"]),
  HOST: z.string().optional(),
  PORT: whole(0, 65_535).default(DEFAULT_PORT),
  INTERNAL_HOST: z
    .string()
    .refine((text) => isIP(text) === 4 && text !== "0.0.0.0", {
      error: "must be an IPv4 address of this machine that the other machines reach, such as 10.0.0.5",
    })
    .default("127.0.0.1"),
  INTERNAL_PORT: whole(0, 65_000).default(0),
  METRICS_HOST: z.string().default("127.0.0.1"),
  METRICS_PORT: whole(0, 65_000).optional(),
  NODE_APP_INSTANCE: whole(0, 500).default(0),
  PUBLIC_URL: url("http", "https").optional(),
  CONSOLE_URL: url("http", "https").optional(),
  CONSOLE_BUILD: flag.optional(),
  TRUSTED_PROXIES: networks.default([]),
  DATA_DIR: z.string().default(join(".laurel", "data")),
  DATABASE_URL: url("postgres", "postgresql").optional(),
  DATABASE_POOL_MAX: whole(1, 1000).default(10),
  ANALYTICS_DATABASE_URL: url("postgres", "postgresql").optional(),
  REDIS_URL: url("redis", "rediss").optional(),
  REDIS_NAMESPACE: z
    .string()
    .regex(/^[\w-]{1,32}$/, "must be 1 to 32 letters, digits, _ or -")
    .default("laurel"),
  JWT_PRIVATE_KEY: jwtPrivateKey.optional(),
  API_KEY_PEPPERS: secretTexts.optional(),
  ENCRYPTION_KEYS: secretTexts.optional(),
  DEMO: flag.optional(),
  AUTO_APPROVE_TENANTS: flag.optional(),
  DEFAULT_PLAN: z.enum(PLANS, { error: "must be FREE, STARTER, PRO or ENTERPRISE" }).optional(),
  STRIPE_SECRET_KEY: z
    .string()
    .regex(/^[sr]k_\w{4,250}$/, "must be a secret or restricted key of Stripe: sk_... or rk_...")
    .optional(),
  STRIPE_WEBHOOK_SECRETS: list
    .pipe(z.array(z.string().regex(/^whsec_\S{8,250}$/, "must be signing secrets of Stripe: whsec_...")))
    .default([]),
  STRIPE_PRICES: prices.default([]),
  STRIPE_API_BASE: url("http", "https").optional(),
  EMAIL_MODE: z.enum(MAIL_MODES, { error: "must be smtp, log or off" }).optional(),
  SMTP_URL: url("smtp", "smtps").optional(),
  MAIL_FROM: z.string().max(254).optional(),
  VERIFIED_EMAIL_REQUIRED: flag.optional(),
  DISPOSABLE_EMAIL_ALLOW: list.default([]),
  DISPOSABLE_EMAIL_DENY: list.default([]),
  CAPTCHA_PROVIDER: z
    .enum(CAPTCHA_PROVIDERS, { error: `must be one of ${CAPTCHA_PROVIDERS.join(", ")}` })
    .default("none"),
  CAPTCHA_SITE_KEY: z.string().optional(),
  CAPTCHA_SECRET: z.string().optional(),
  CAPTCHA_HOSTNAME: z.string().optional(),
  CAPTCHA_VERIFY_URL: url("http", "https").optional(),
  OAUTH_GOOGLE_CLIENT_ID: z.string().optional(),
  OAUTH_GOOGLE_CLIENT_SECRET: z.string().optional(),
  OAUTH_GOOGLE_ISSUER: url("http", "https").default("https://accounts.google.com"),
  OAUTH_GITHUB_CLIENT_ID: z.string().optional(),
  OAUTH_GITHUB_CLIENT_SECRET: z.string().optional(),
  OAUTH_GITHUB_URL: url("http", "https").default("https://github.com"),
  OAUTH_GITHUB_API_URL: url("http", "https").default("https://api.github.com"),
  OAUTH_REDIRECT_URIS: addresses.default([]),
  SUPERADMIN_ALLOW_CIDRS: networks.default([]),
  SUPERADMIN_MFA_REQUIRED: flag.default(true),
  PASSKEY_RP_ID: z
    .string()
    .regex(/^[a-z0-9-]+(\.[a-z0-9-]+)*$/, "must be a host name in lower case, such as example.com")
    .optional(),
  PASSKEY_ORIGINS: addresses.optional(),
  OUTBOUND_ALLOW_CIDRS: someNetworks.default([]),
  OUTBOUND_PORTS: ports.default([443, 8443]),
  WEBHOOKS_ALLOW_LOCAL: flag.default(false),
  DNS_SERVERS: nameServers.default([]),
  /** How certificates of custom domains come about. off: there are no custom domains. */
  SSL_MODE: z.enum(["off", "acme", "external"], { error: "must be off, acme or external" }).default("off"),
  CUSTOM_DOMAIN_SUFFIX: z
    .string()
    .regex(/^[a-z0-9-]+(\.[a-z0-9-]+)+$/, "must be a domain in lower case, such as edge.example.com")
    .optional(),
  INGRESS_IPS: list
    .pipe(
      z.array(z.string()).refine((texts) => texts.every((text) => isIP(text) !== 0), {
        error: "must be IP addresses of this server",
      }),
    )
    .default([]),
  TLS_PORT: whole(0, 65_535).optional(),
  ACME_DIRECTORY_URL: url("https").default(LETS_ENCRYPT),
  ACME_EMAIL: z.email({ error: "must be an email address" }).optional(),
  ACME_EAB_KEY_ID: z.string().optional(),
  ACME_EAB_HMAC_KEY: z
    .string()
    .regex(/^[\w-]+=*$/, "must be in Base64url")
    .optional(),
  ACME_CA_FILE: z.string().optional(),
  ACME_CAA_NAMES: list
    .pipe(
      z.array(
        z
          .string()
          .regex(/^[a-z0-9-]+(\.[a-z0-9-]+)+$/, "must be domains in lower case, such as letsencrypt.org"),
      ),
    )
    .optional(),
  WAREHOUSE_URL: z
    .string()
    .refine((text) => WAREHOUSE.test(text) && URL.canParse(text), {
      error:
        "must be a directory, such as file:///var/lib/warehouse, or a bucket, such as s3://bucket/prefix",
    })
    .optional(),
  WAREHOUSE_EVERY_SECONDS: whole(10, 3_600).default(300),
  WAREHOUSE_ENDPOINT: url("http", "https").optional(),
  WAREHOUSE_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, "must be the name of a region, such as eu-central-1")
    .default("us-east-1"),
  WAREHOUSE_ACCESS_KEY_ID: z.string().optional(),
  WAREHOUSE_SECRET_ACCESS_KEY: z.string().optional(),
  LOG_LEVEL: z
    .enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"], {
      error: "must be trace, debug, info, warn, error, fatal or silent",
    })
    .default("info"),
  METRICS_TOKEN: z.string().min(16, "must have at least 16 characters").optional(),
  SHUTDOWN_TIMEOUT_MS: whole(1_000, 600_000).default(30_000),
  SHUTDOWN_DELAY_MS: whole(0, 600_000).default(0),
};
