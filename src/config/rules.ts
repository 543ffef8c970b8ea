import { isSampleKey, SAMPLE_API_KEY_PEPPER, SAMPLE_ENCRYPTION_KEY } from "../secrets.ts";
import { DEFAULT_PORT, list, NEW_JWT_KEY, NEW_SECRET } from "./settings.ts";

/** Variables by name; an empty one counts as unset. */
export type Env = Readonly<Record<string, string | undefined>>;

/** A dependency between variables; checked on their text, so that one bad value hides no other problem. */
type Rule = { name: string; message: string; breaks: (env: Env) => boolean };

const rule = (name: string, message: string, breaks: (env: Env) => boolean): Rule => ({
  name,
  message,
  breaks,
});
/** @param when on what the variable is required, and how it may look */
const required = (name: string, when: string, isOn: (env: Env) => boolean): Rule =>
  rule(name, `is required when ${when}`, (env) => isOn(env) && env[name] === undefined);
const notInProduction = (name: string, message: string, breaks: (value: string) => boolean): Rule =>
  rule(name, message, (env) => isProduction(env) && breaks(env[name] ?? ""));

const isCluster = (env: Env) => env["MODE"] === "cluster";
const isProduction = (env: Env) => env["NODE_ENV"] === "production";
const isProductionCluster = (env: Env) => isProduction(env) && isCluster(env);
const runsBothRoles = (env: Env) => {
  const named = list.parse(env["ROLES"] ?? "web,worker");
  return named.includes("web") && named.includes("worker");
};
const sendsMail = (env: Env) =>
  env["EMAIL_MODE"] === "smtp" || (env["EMAIL_MODE"] === undefined && env["SMTP_URL"] !== undefined);
const isBucket = (env: Env) => env["WAREHOUSE_URL"]?.startsWith("s3:") ?? false;
const sellsPlans = (env: Env) => env["STRIPE_SECRET_KEY"] !== undefined;
const hasDomains = (env: Env) => ["acme", "external"].includes(env["SSL_MODE"] ?? "");

const passkeyOrigins = (env: Env): string[] =>
  list.parse(env["PASSKEY_ORIGINS"] ?? env["CONSOLE_URL"] ?? env["PUBLIC_URL"] ?? "");

/** Whether passkeys of the RP id work at the address: they do at its host and those below it. */
const fitsRpId = (address: string, rpId: string): boolean => {
  if (!URL.canParse(address)) return true;
  const { hostname } = new URL(address);
  return hostname === rpId || hostname.endsWith(`.${rpId}`);
};

const OFF = /^(off|false|0|no|n|disabled)$/i;
const ON = /^(on|true|1|yes|y|enabled)$/i;
const OF_SAMPLE = "of .env.example, which production refuses. Make your own:";
const FOR_TESTS = "is for tests, which production refuses";
const IN_PRODUCTION = "NODE_ENV=production and MODE=cluster. Make one:";

/** Dependencies between variables. */
export const RULES: readonly Rule[] = [
  required(
    "DATABASE_URL",
    "MODE=cluster, such as postgres://laurel:password@localhost:5432/laurel",
    isCluster,
  ),
  required("REDIS_URL", "MODE=cluster, such as redis://localhost:6379", isCluster),
  rule(
    "ROLES",
    "must be web,worker when MODE=embedded, which is one process. Use MODE=cluster to split them",
    (env) => !isCluster(env) && !runsBothRoles(env),
  ),
  notInProduction(
    "PUBLIC_URL",
    "must start with https:// when NODE_ENV=production: set it to the address that clients use",
    (url) => !url.startsWith("https://"),
  ),
  required("JWT_PRIVATE_KEY", `${IN_PRODUCTION} ${NEW_JWT_KEY}`, isProductionCluster),
  required("API_KEY_PEPPERS", `${IN_PRODUCTION} ${NEW_SECRET}`, isProductionCluster),
  required("ENCRYPTION_KEYS", `${IN_PRODUCTION} ${NEW_SECRET}`, isProductionCluster),
  notInProduction("JWT_PRIVATE_KEY", `is the sample ${OF_SAMPLE} ${NEW_JWT_KEY}`, isSampleKey),
  notInProduction("API_KEY_PEPPERS", `holds the sample ${OF_SAMPLE} ${NEW_SECRET}`, (peppers) =>
    peppers.includes(SAMPLE_API_KEY_PEPPER),
  ),
  notInProduction("ENCRYPTION_KEYS", `holds the sample ${OF_SAMPLE} ${NEW_SECRET}`, (keys) =>
    keys.includes(SAMPLE_ENCRYPTION_KEY),
  ),
  notInProduction(
    "WEBHOOKS_ALLOW_LOCAL",
    "must be off when NODE_ENV=production: tenants could reach this network. To allow parts of it, list " +
      "them in OUTBOUND_ALLOW_CIDRS",
    (text) => ON.test(text),
  ),
  notInProduction(
    "SUPERADMIN_MFA_REQUIRED",
    "must be on when NODE_ENV=production: a password alone must not open every tenant",
    (text) => OFF.test(text),
  ),
  rule(
    "PASSKEY_RP_ID",
    "must be the host of every address in PASSKEY_ORIGINS (default: CONSOLE_URL), or a domain above it",
    (env) => {
      const [first = ""] = passkeyOrigins(env);
      const rpId = env["PASSKEY_RP_ID"] ?? (URL.canParse(first) ? new URL(first).hostname : "");
      return rpId !== "" && passkeyOrigins(env).some((address) => !fitsRpId(address, rpId));
    },
  ),
  notInProduction("PASSKEY_ORIGINS", "must start with https:// when NODE_ENV=production", (origins) =>
    list.parse(origins).some((address) => !address.startsWith("https://")),
  ),
  required("WAREHOUSE_ACCESS_KEY_ID", "WAREHOUSE_URL is a bucket", isBucket),
  required("WAREHOUSE_SECRET_ACCESS_KEY", "WAREHOUSE_URL is a bucket", isBucket),
  required("STRIPE_WEBHOOK_SECRETS", "STRIPE_SECRET_KEY is set", sellsPlans),
  required("STRIPE_PRICES", "STRIPE_SECRET_KEY is set", sellsPlans),
  notInProduction("STRIPE_API_BASE", FOR_TESTS, (url) => url !== ""),
  required("CUSTOM_DOMAIN_SUFFIX", "SSL_MODE is acme or external, such as edge.example.com", hasDomains),
  required(
    "TLS_PORT",
    "SSL_MODE=acme, such as 8443: the port that 443 of custom domains leads to",
    (env) => env["SSL_MODE"] === "acme",
  ),
  rule(
    "TLS_PORT",
    "must be another port than PORT: custom domains are served by TLS, and PORT is not",
    ({ SSL_MODE, PORT = DEFAULT_PORT, TLS_PORT = 0 }) =>
      SSL_MODE === "acme" && Number(TLS_PORT) !== 0 && Number(TLS_PORT) === Number(PORT),
  ),
  rule(
    "ACME_EAB_HMAC_KEY",
    "must be set together with ACME_EAB_KEY_ID",
    ({ ACME_EAB_KEY_ID, ACME_EAB_HMAC_KEY }) =>
      (ACME_EAB_KEY_ID === undefined) !== (ACME_EAB_HMAC_KEY === undefined),
  ),
  rule(
    "EMAIL_MODE",
    "must not be log when NODE_ENV=production: links to reset passwords would be in the log. " +
      "Set SMTP_URL, or EMAIL_MODE=off to send no mail at all",
    (env) => isProduction(env) && (env["EMAIL_MODE"] ?? "log") === "log" && !env["SMTP_URL"],
  ),
  rule(
    "EMAIL_MODE",
    "must not be log when NODE_ENV=production: links to reset passwords would be in the log",
    (env) => isProduction(env) && env["EMAIL_MODE"] === "log" && env["SMTP_URL"] !== undefined,
  ),
  required(
    "SMTP_URL",
    "EMAIL_MODE=smtp, such as smtps://user:password@mail.example.com",
    (env) => env["EMAIL_MODE"] === "smtp",
  ),
  required("MAIL_FROM", 'mail is sent, such as "Laurel <laurel@example.com>"', sendsMail),
  required(
    "CAPTCHA_SECRET",
    "CAPTCHA_PROVIDER is set",
    ({ CAPTCHA_PROVIDER = "none" }) => CAPTCHA_PROVIDER !== "none",
  ),
  notInProduction("CAPTCHA_VERIFY_URL", FOR_TESTS, (url) => url !== ""),
  ...["GOOGLE", "GITHUB"].map((name) =>
    rule(
      `OAUTH_${name}_CLIENT_SECRET`,
      `must be set together with OAUTH_${name}_CLIENT_ID`,
      (env) =>
        (env[`OAUTH_${name}_CLIENT_ID`] === undefined) !== (env[`OAUTH_${name}_CLIENT_SECRET`] === undefined),
    ),
  ),
];
