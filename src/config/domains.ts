import { isIP } from "node:net";
import type { Env, Rule } from "./rule.ts";

/** The default of PORT. */
export const DEFAULT_PORT = 2_567;

/** How certificates of custom domains come about. off: there are no custom domains. */
export const SSL_MODES = ["off", "acme", "external"] as const;

/** The certificate authority that certificates are ordered from, and where they are used. */
export type AcmeSettings = {
  directoryUrl: string;
  /** Whom the authority writes to; undefined: nobody. */
  email: string | undefined;
  /** A file with the authorities that the directory's own certificate is checked by, PEM. */
  caFile: string | undefined;
  /** Where web processes speak TLS; 0 selects a free port. */
  tlsPort: number;
};

/** Custom domains of tenants. */
export type DomainSettings = {
  /** Names below it are what custom domains point to. */
  suffix: string;
  /** Addresses that custom domains may point to instead. */
  ingressIps: readonly string[];
  /** Hosts of this server itself, which nobody may claim. */
  ownHosts: readonly string[];
  /** What CAA records call the authority of `acme`; empty where nobody has said. */
  caaNames: readonly string[];
  /** Undefined: a proxy in front has the certificates. */
  acme: AcmeSettings | undefined;
};

type Given = {
  SSL_MODE: (typeof SSL_MODES)[number];
  CUSTOM_DOMAIN_SUFFIX?: string | undefined;
  INGRESS_IPS: string[];
  TLS_PORT?: number | undefined;
  ACME_DIRECTORY_URL: string;
  ACME_EMAIL?: string | undefined;
  ACME_CA_FILE?: string | undefined;
  ACME_CAA_NAMES?: string[] | undefined;
};

/** The directory of the default authority, and what CAA records call that. */
export const LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory";
const LETS_ENCRYPT_NAMES: readonly string[] = ["letsencrypt.org"];

const caaNamesOf = ({ SSL_MODE, ACME_DIRECTORY_URL, ACME_CAA_NAMES }: Given): readonly string[] => {
  if (SSL_MODE !== "acme") return [];
  return ACME_CAA_NAMES ?? (ACME_DIRECTORY_URL === LETS_ENCRYPT ? LETS_ENCRYPT_NAMES : []);
};

type Addresses = { publicUrl: string; consoleUrl: string };

/** Returns the settings of custom domains; undefined: there are none. */
export const domainsOf = (env: Given, { publicUrl, consoleUrl }: Addresses): DomainSettings | undefined => {
  if (env.SSL_MODE === "off") return undefined;
  const suffix = env.CUSTOM_DOMAIN_SUFFIX ?? "";
  return {
    suffix,
    ingressIps: env.INGRESS_IPS,
    caaNames: caaNamesOf(env),
    ownHosts: [suffix, ...[publicUrl, consoleUrl].map((address) => new URL(address).hostname)],
    acme:
      env.SSL_MODE === "acme"
        ? {
            directoryUrl: env.ACME_DIRECTORY_URL,
            email: env.ACME_EMAIL,
            caFile: env.ACME_CA_FILE,
            tlsPort: env.TLS_PORT ?? 0,
          }
        : undefined,
  };
};

/** Whether all texts are addresses, without ports. */
export const areAddresses = (texts: readonly string[]): boolean => texts.every((text) => isIP(text) !== 0);

const isOn = (env: Env): boolean => ["acme", "external"].includes(env["SSL_MODE"] ?? "");

/** Dependencies between the settings of custom domains. */
export const DOMAIN_RULES: readonly Rule[] = [
  {
    name: "CUSTOM_DOMAIN_SUFFIX",
    breaks: (env) => isOn(env) && env["CUSTOM_DOMAIN_SUFFIX"] === undefined,
    message: "is required when SSL_MODE is acme or external, such as edge.example.com",
  },
  {
    name: "TLS_PORT",
    breaks: (env) => env["SSL_MODE"] === "acme" && env["TLS_PORT"] === undefined,
    message: "is required when SSL_MODE=acme, such as 8443: the port that 443 of custom domains leads to",
  },
  {
    name: "TLS_PORT",
    breaks: ({ SSL_MODE, PORT = DEFAULT_PORT, TLS_PORT }) =>
      SSL_MODE === "acme" &&
      TLS_PORT !== undefined &&
      Number(TLS_PORT) !== 0 &&
      Number(TLS_PORT) === Number(PORT),
    message: "must be another port than PORT: custom domains are served by TLS, and PORT is not",
  },
];
