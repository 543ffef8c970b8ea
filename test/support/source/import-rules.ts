import { type Import, importsOf, packageOf, resolveImport, type SourceFile } from "./source-files.ts";

type Layer =
  | "main"
  | "cli"
  | "http"
  | "rooms"
  | "jobs"
  | "domain"
  | "app"
  | "platform"
  | "config"
  | "log"
  | "metrics";

const FOLDERS: readonly Layer[] = ["cli", "http", "rooms", "jobs", "domain", "platform", "config", "metrics"];
const FILES: readonly Layer[] = ["main", "app", "platform", "config", "log", "metrics"];
const ADAPTER = { values: ["domain"], types: ["app", "config"] } as const;

/** What each layer may import besides itself: at run time, and as types only. */
const MAY_IMPORT: Record<Layer, { values: readonly Layer[]; types: readonly Layer[] }> = {
  main: { values: [...FOLDERS, "app", "log"], types: [] },
  cli: { values: [...FOLDERS, "app", "log"], types: [] },
  http: ADAPTER,
  rooms: ADAPTER,
  jobs: ADAPTER,
  domain: { values: [], types: [] },
  app: { values: ["domain", "platform"], types: ["config", "log", "metrics", "jobs"] },
  // platform may also import src/jobs/queue.ts: FILES_FOR below.
  platform: { values: ["domain"], types: ["app", "config", "log", "metrics", "jobs"] },
  config: { values: ["domain"], types: [] },
  log: { values: ["domain"], types: ["config"] },
  metrics: { values: ["domain"], types: ["config"] },
};

const FILES_FOR: Partial<Record<Layer, readonly string[]>> = { platform: ["src/jobs/queue.ts"] };

const DOMAIN_PACKAGES = new RegExp(
  `^(${[
    "zod",
    "@cfworker/json-schema",
    "jose",
    "@mikro-orm\\/.+",
    "kysely",
    "uuid",
    "croner",
    "@node-rs\\/argon2",
    "disposable-email-domains-js",
    "obscenity",
    "tldts",
    "ipaddr\\.js",
    "otpauth",
  ].join("|")})$`,
);
const NETWORK_MODULES = /^node:(http|https|http2|tls|dgram|dns|child_process|cluster|worker_threads)(\/|$)/;

/** Packages that only some files may know. */
const KEPT_PACKAGES: { packages: RegExp; files: RegExp; rule: string }[] = [
  { packages: /^bull$/, files: /^src\/jobs\/queue\.ts$/, rule: "only src/jobs/queue.ts imports bull" },
  {
    packages: /^(ioredis|@electric-sql\/pglite|@mikro-orm\/pglite|@colyseus\/redis-(driver|presence))$/,
    files: /^src\/platform(\.ts$|\/)/,
    rule: "only src/platform.ts and src/platform/ import Redis and PGlite",
  },
  {
    packages: /^(nodemailer|openid-client|altcha-lib|undici|@simplewebauthn\/server)$/,
    files: /^src\/platform\//,
    rule: "only src/platform/ speaks to mail servers, providers, captchas and endpoints",
  },
  {
    packages: /^(@node-saml\/node-saml|@xmldom\/xmldom)$/,
    files: /^src\/platform\/sso\//,
    rule: "only src/platform/sso/ reads SAML",
  },
];

/** The layer of a file under src (secrets.ts and version.ts count as config); undefined when it has none. */
export const layerOf = (path: string): Layer | undefined => {
  const [, first = ""] = path.split("/");
  const name = first.replace(/\.ts$/, "");
  const isFile = first.endsWith(".ts");
  if (!isFile) return FOLDERS.find((layer) => layer === name);
  return name === "secrets" || name === "version" ? "config" : FILES.find((layer) => layer === name);
};

const layerRule = (layer: Layer, target: string, { isTypeOnly }: Import): string | undefined => {
  const targetLayer = layerOf(target);
  if (!targetLayer) return `${target} belongs to no layer`;
  const { values, types } = MAY_IMPORT[layer];
  if (targetLayer === layer || values.includes(targetLayer) || FILES_FOR[layer]?.includes(target))
    return undefined;
  if (!types.includes(targetLayer)) return `${layer} may not import ${targetLayer} (${target})`;
  return isTypeOnly ? undefined : `${layer} may only \`import type\` from ${targetLayer} (${target})`;
};

const packageRules = (path: string, layer: Layer, specifier: string): string[] => {
  const name = packageOf(specifier);
  const kept = KEPT_PACKAGES.filter(({ packages, files }) => packages.test(name) && !files.test(path));
  const found = kept.map(({ rule }) => rule);
  if (layer !== "domain") return found;
  if (NETWORK_MODULES.test(specifier))
    found.push(`domain may not know the network or processes (${specifier})`);
  if (!specifier.startsWith("node:") && !DOMAIN_PACKAGES.test(name))
    found.push(`domain may not import ${name}`);
  return found;
};

const violationsOf = ({ path, text }: SourceFile): string[] => {
  const layer = layerOf(path);
  if (!layer) return [`${path}:1 belongs to no layer`];
  return importsOf(text).flatMap((one) => {
    const target = resolveImport(path, one.specifier);
    const rules = target
      ? [layerRule(layer, target, one), /\.(ts|json)$/.test(target) ? undefined : "imports carry .ts"]
      : packageRules(path, layer, one.specifier);
    return rules.filter((rule) => rule !== undefined).map((rule) => `${path}:${one.line} ${rule}`);
  });
};

/** Who may import whom, for the files under src: one `path:line rule` for each violation. */
export const importViolations = (files: readonly SourceFile[]): string[] => files.flatMap(violationsOf);
