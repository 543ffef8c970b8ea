import { isSampleKey, SAMPLE_API_KEY_PEPPER, SAMPLE_ENCRYPTION_KEY } from "../secrets.ts";
import { BILLING_RULES } from "./billing.ts";
import { DOMAIN_RULES } from "./domains.ts";
import { PASSKEY_RULES } from "./passkeys.ts";
import type { Env, Rule } from "./rule.ts";
import { list, NEW_JWT_KEY, NEW_SECRET } from "./settings.ts";
import { WAREHOUSE_RULES } from "./warehouse.ts";

const isCluster = (env: Env) => env["MODE"] === "cluster";
const isProduction = (env: Env) => env["NODE_ENV"] === "production";
const runsBothRoles = (env: Env) => {
  const named = list.parse(env["ROLES"] ?? "web,worker");
  return named.includes("web") && named.includes("worker");
};

const sendsMail = (env: Env) =>
  env["EMAIL_MODE"] === "smtp" || (env["EMAIL_MODE"] === undefined && Boolean(env["SMTP_URL"]));

const OFF = /^(off|false|0|no|n|disabled)$/i;

/** Dependencies between variables. */
export const RULES: readonly Rule[] = [
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
    message: `is required when NODE_ENV=production and MODE=cluster. Make one: ${NEW_SECRET}`,
  },
  {
    name: "JWT_PRIVATE_KEY",
    breaks: (env) => isProduction(env) && isSampleKey(env["JWT_PRIVATE_KEY"]),
    message: `is the sample of .env.example, which production refuses. Make your own: ${NEW_JWT_KEY}`,
  },
  {
    name: "API_KEY_PEPPERS",
    breaks: (env) => isProduction(env) && Boolean(env["API_KEY_PEPPERS"]?.includes(SAMPLE_API_KEY_PEPPER)),
    message: `holds the sample of .env.example, which production refuses. Make your own: ${NEW_SECRET}`,
  },
  {
    name: "ENCRYPTION_KEYS",
    breaks: (env) => isProduction(env) && isCluster(env) && env["ENCRYPTION_KEYS"] === undefined,
    message: `is required when NODE_ENV=production and MODE=cluster. Make one: ${NEW_SECRET}`,
  },
  {
    name: "ENCRYPTION_KEYS",
    breaks: (env) => isProduction(env) && Boolean(env["ENCRYPTION_KEYS"]?.includes(SAMPLE_ENCRYPTION_KEY)),
    message: `holds the sample of .env.example, which production refuses. Make your own: ${NEW_SECRET}`,
  },
  {
    name: "WEBHOOKS_ALLOW_LOCAL",
    breaks: (env) =>
      isProduction(env) && /^(on|true|1|yes|y|enabled)$/i.test(env["WEBHOOKS_ALLOW_LOCAL"] ?? ""),
    message:
      "must be off when NODE_ENV=production: tenants could reach this network. To allow parts of it, list " +
      "them in OUTBOUND_ALLOW_CIDRS",
  },
  {
    name: "SUPERADMIN_MFA_REQUIRED",
    breaks: (env) => isProduction(env) && OFF.test(env["SUPERADMIN_MFA_REQUIRED"] ?? ""),
    message: "must be on when NODE_ENV=production: a password alone must not open every tenant",
  },
  ...PASSKEY_RULES,
  ...WAREHOUSE_RULES,
  ...BILLING_RULES,
  ...DOMAIN_RULES,
  {
    name: "EMAIL_MODE",
    breaks: (env) => isProduction(env) && (env["EMAIL_MODE"] ?? "log") === "log" && !env["SMTP_URL"],
    message:
      "must not be log when NODE_ENV=production: links to reset passwords would be in the log. " +
      "Set SMTP_URL, or EMAIL_MODE=off to send no mail at all",
  },
  {
    name: "EMAIL_MODE",
    breaks: (env) => isProduction(env) && env["EMAIL_MODE"] === "log" && Boolean(env["SMTP_URL"]),
    message: "must not be log when NODE_ENV=production: links to reset passwords would be in the log",
  },
  {
    name: "SMTP_URL",
    breaks: (env) => env["EMAIL_MODE"] === "smtp" && !env["SMTP_URL"],
    message: "is required when EMAIL_MODE=smtp, such as smtps://user:password@mail.example.com",
  },
  {
    name: "MAIL_FROM",
    breaks: (env) => sendsMail(env) && !env["MAIL_FROM"],
    message: 'is required when mail is sent, such as "Laurel <laurel@example.com>"',
  },
  {
    name: "CAPTCHA_SECRET",
    breaks: (env) => (env["CAPTCHA_PROVIDER"] ?? "none") !== "none" && !env["CAPTCHA_SECRET"],
    message: "is required when CAPTCHA_PROVIDER is set",
  },
  {
    name: "CAPTCHA_VERIFY_URL",
    breaks: (env) => isProduction(env) && env["CAPTCHA_VERIFY_URL"] !== undefined,
    message: "is for tests, which production refuses",
  },
  ...(["GOOGLE", "GITHUB"] as const).map((name) => ({
    name: `OAUTH_${name}_CLIENT_SECRET`,
    breaks: (env: Env) =>
      Boolean(env[`OAUTH_${name}_CLIENT_ID`]) !== Boolean(env[`OAUTH_${name}_CLIENT_SECRET`]),
    message: `must be set together with OAUTH_${name}_CLIENT_ID`,
  })),
];
