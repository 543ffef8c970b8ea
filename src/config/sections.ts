import { fileURLToPath } from "node:url";
import type { z } from "zod";
import { LETS_ENCRYPT, type SETTINGS } from "./settings.ts";

/** What the environment says, with defaults. */
export type Parsed = z.output<z.ZodObject<typeof SETTINGS>>;

const withoutSlash = (url: string): string => url.replace(/\/+$/, "");

/** Processes that a supervisor starts from one line of configuration differ by their number. */
const numberedPort = (port: number, { NODE_APP_INSTANCE }: Parsed): number =>
  port === 0 ? 0 : port + NODE_APP_INSTANCE;

const publicUrlOf = (env: Parsed): string => withoutSlash(env.PUBLIC_URL ?? `http://localhost:${env.PORT}`);

/** Where the process listens, and where others find it; port 0 selects a free one. */
export const networkOf = (env: Parsed) => ({
  host: env.HOST ?? (env.MODE === "embedded" ? "127.0.0.1" : "0.0.0.0"),
  port: env.PORT,
  /** Where the other processes of a cluster reach the rooms of this one. */
  internal: { host: env.INTERNAL_HOST, port: numberedPort(env.INTERNAL_PORT, env) },
  /** Where this process alone shows its health and metrics, if anywhere. */
  operators:
    env.METRICS_PORT === undefined
      ? undefined
      : { host: env.METRICS_HOST, port: numberedPort(env.METRICS_PORT, env) },
  /** Without a trailing slash. */
  publicUrl: publicUrlOf(env),
  /** Where people use the console, and links in mails lead. Without a trailing slash. */
  consoleUrl: withoutSlash(env.CONSOLE_URL ?? `${publicUrlOf(env)}/console`),
  trustedProxies: env.TRUSTED_PROXIES,
});

/** Where data are kept; the addresses of stores are set in cluster mode alone. */
export const storesOf = (env: Parsed) => {
  const inCluster = (url: string | undefined) => (env.MODE === "cluster" ? url : undefined);
  return {
    dataDir: env.DATA_DIR,
    databaseUrl: inCluster(env.DATABASE_URL),
    databasePoolMax: env.DATABASE_POOL_MAX,
    /** A replica that questions of analytics read. */
    analyticsDatabaseUrl: inCluster(env.ANALYTICS_DATABASE_URL),
    redisUrl: inCluster(env.REDIS_URL),
    redisNamespace: env.REDIS_NAMESPACE,
  };
};

export type MailSettings = ReturnType<typeof mailOf>;
export const mailOf = (env: Parsed) => ({
  mode: env.EMAIL_MODE ?? (env.SMTP_URL === undefined ? ("log" as const) : ("smtp" as const)),
  smtpUrl: env.SMTP_URL,
  from: env.MAIL_FROM ?? "Laurel <laurel@localhost>",
});

export type CaptchaSettings = ReturnType<typeof captchaOf>;
export const captchaOf = (env: Parsed) => ({
  provider: env.CAPTCHA_PROVIDER,
  siteKey: env.CAPTCHA_SITE_KEY,
  secret: env.CAPTCHA_SECRET,
  /** The host on which a token must have been issued. */
  hostname: env.CAPTCHA_HOSTNAME,
  /** Overrides the provider's own address. */
  verifyUrl: env.CAPTCHA_VERIFY_URL,
});

const clientOf = (clientId: string | undefined, clientSecret: string | undefined) =>
  clientId === undefined || clientSecret === undefined ? undefined : { clientId, clientSecret };

export type OAuthSettings = ReturnType<typeof oauthOf>;
export const oauthOf = (env: Parsed) => {
  const google = clientOf(env.OAUTH_GOOGLE_CLIENT_ID, env.OAUTH_GOOGLE_CLIENT_SECRET);
  const github = clientOf(env.OAUTH_GITHUB_CLIENT_ID, env.OAUTH_GITHUB_CLIENT_SECRET);
  const { consoleUrl } = networkOf(env);
  return {
    google: google && { ...google, issuer: env.OAUTH_GOOGLE_ISSUER },
    /** Both URLs without a trailing slash. */
    github: github && {
      ...github,
      url: withoutSlash(env.OAUTH_GITHUB_URL),
      apiUrl: withoutSlash(env.OAUTH_GITHUB_API_URL),
    },
    /** Redirect addresses allowed for every tenant, besides its own list; the last are those of the console. */
    redirectUris: [
      ...env.OAUTH_REDIRECT_URIS,
      ...["oauth", "account"].map((page) => `${consoleUrl}/${page}`),
    ],
  };
};

/** Where browsers may use passkeys: where people use the console unless PASSKEY_ORIGINS says otherwise. */
export type PasskeySettings = ReturnType<typeof passkeysOf>;
export const passkeysOf = (env: Parsed) => {
  const [first = networkOf(env).consoleUrl, ...rest] = env.PASSKEY_ORIGINS ?? [];
  return {
    /** The host that passkeys belong to: they work there and on hosts below it. */
    rpId: env.PASSKEY_RP_ID ?? new URL(first).hostname,
    /** Origins of the pages that may use them. */
    origins: [first, ...rest].map((address) => new URL(address).origin),
  };
};

/** How plans are sold; undefined where none are. */
export type BillingSettings = NonNullable<ReturnType<typeof billingOf>>;
export const billingOf = ({ STRIPE_SECRET_KEY: secretKey, ...env }: Parsed) =>
  secretKey === undefined
    ? undefined
    : {
        secretKey,
        /** Of the endpoint; several while one is rotated. */
        webhookSecrets: env.STRIPE_WEBHOOK_SECRETS,
        prices: env.STRIPE_PRICES,
        /** For tests: another address than Stripe's. */
        apiBase: env.STRIPE_API_BASE,
      };

/** Where requests may go to addresses that tenants have configured. */
export type OutboundSettings = ReturnType<typeof outboundOf>;
export const outboundOf = (env: Parsed) => ({
  /** Networks that are allowed although they are not public. */
  allowCidrs: env.OUTBOUND_ALLOW_CIDRS as readonly string[],
  /** Allowed ports. */
  ports: env.OUTBOUND_PORTS as readonly number[],
  /** Development only: plain http, this machine, private networks and any port. */
  allowLocal: env.WEBHOOKS_ALLOW_LOCAL,
});

const bindingOf = ({ ACME_EAB_KEY_ID: kid, ACME_EAB_HMAC_KEY: hmacKey }: Parsed) =>
  kid === undefined || hmacKey === undefined ? {} : { externalAccountBinding: { kid, hmacKey } };

/** The certificate authority that certificates of custom domains are ordered from, and where they are used. */
export type AcmeSettings = ReturnType<typeof acmeOf>;
const acmeOf = (env: Parsed) => ({
  directoryUrl: env.ACME_DIRECTORY_URL,
  /** Whom the authority writes to; undefined: nobody. */
  email: env.ACME_EMAIL,
  /** The operator's account at the authority, to which that of this server is bound. */
  ...bindingOf(env),
  /** A file with the authorities that the directory's own certificate is checked by, PEM. */
  caFile: env.ACME_CA_FILE,
  /** Where web processes speak TLS; 0 selects a free port. */
  tlsPort: env.TLS_PORT ?? 0,
});

const caaNamesOf = ({ SSL_MODE, ACME_DIRECTORY_URL, ACME_CAA_NAMES }: Parsed): readonly string[] => {
  if (SSL_MODE !== "acme") return [];
  return ACME_CAA_NAMES ?? (ACME_DIRECTORY_URL === LETS_ENCRYPT ? ["letsencrypt.org"] : []);
};

/** Returns the settings of tenants' custom domains; undefined: there are none. */
export const domainsOf = (env: Parsed) => {
  if (env.SSL_MODE === "off") return undefined;
  const { publicUrl, consoleUrl } = networkOf(env);
  const suffix = env.CUSTOM_DOMAIN_SUFFIX ?? "";
  return {
    /** Names below it are what custom domains point to. */
    suffix,
    /** Addresses that custom domains may point to instead. */
    ingressIps: env.INGRESS_IPS,
    /** What CAA records call the authority of `acme`; empty where nobody has said. */
    caaNames: caaNamesOf(env),
    /** Hosts of this server itself, which nobody may claim. */
    ownHosts: [suffix, ...[publicUrl, consoleUrl].map((address) => new URL(address).hostname)],
    /** Undefined: a proxy in front has the certificates. */
    acme: env.SSL_MODE === "acme" ? acmeOf(env) : undefined,
  };
};

/** A bucket of an S3-compatible store. */
export type S3Settings = ReturnType<typeof bucketOf>;
const bucketOf = (url: URL, env: Parsed) => ({
  kind: "s3" as const,
  bucket: url.hostname,
  /** Before each name: empty, or with a slash at its end. */
  prefix: withoutSlash(url.pathname.replace(/^\/+/, "")).replace(/.$/, "$&/"),
  /** Without a trailing slash; undefined: that of AWS in the region. */
  endpoint: env.WAREHOUSE_ENDPOINT && withoutSlash(env.WAREHOUSE_ENDPOINT),
  region: env.WAREHOUSE_REGION,
  accessKeyId: env.WAREHOUSE_ACCESS_KEY_ID ?? "",
  secretAccessKey: env.WAREHOUSE_SECRET_ACCESS_KEY ?? "",
});

/** Where every event and its effects are written for a warehouse; undefined: there is none. */
export type WarehouseSettings = NonNullable<ReturnType<typeof warehouseOf>>;
export const warehouseOf = (env: Parsed) => {
  if (env.WAREHOUSE_URL === undefined) return undefined;
  const url = new URL(env.WAREHOUSE_URL);
  return {
    store:
      url.protocol === "file:"
        ? { kind: "directory" as const, path: fileURLToPath(url) }
        : bucketOf(url, env),
    /** How long events of a project are gathered for a file, in ms. */
    everyMs: env.WAREHOUSE_EVERY_SECONDS * 1_000,
  };
};
