import { X509Certificate } from "node:crypto";

/** Certificates of one identity provider: more than one while they are exchanged. */
export const CERTIFICATES_MAX = 3;
export const CERTIFICATE_TEXT_MAX = 30_000;
const RSA_BITS_MIN = 2_048;
const BLOCK = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;
/** Elliptic curves whose signatures node:crypto verifies as `ecdsa-sha256`. */
const CURVES: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);

/** What is shown of a certificate. */
export type ShownCertificate = {
  /** SHA-256, in hex. */
  fingerprint: string;
  subject: string;
  notBefore: string;
  notAfter: string;
};

type Parsed = { certificate: X509Certificate; pem: string };

const parsed = (pem: string): Parsed => {
  const certificate = new X509Certificate(pem);
  return { certificate, pem: certificate.toString() };
};

/** Returns the blocks of a stored text, which were valid when it was stored. */
const blocksOf = (text: string): Parsed[] => (text.match(BLOCK) ?? []).map(parsed);

const problemOfOne = ({ certificate }: Parsed, now: Date): string | undefined => {
  const { publicKey, validToDate } = certificate;
  const { asymmetricKeyType, asymmetricKeyDetails = {} } = publicKey;
  if (validToDate <= now) return `has expired on ${validToDate.toISOString()}`;
  if (asymmetricKeyType === "rsa") {
    const bits = asymmetricKeyDetails.modulusLength ?? 0;
    return bits >= RSA_BITS_MIN ? undefined : `has an RSA key of ${bits} bits: ${RSA_BITS_MIN} are needed`;
  }
  if (asymmetricKeyType === "ec" && CURVES.has(asymmetricKeyDetails.namedCurve ?? "")) return undefined;
  return "must have an RSA key, or one on the curves P-256, P-384 or P-521";
};

/**
 * Reads certificates that somebody gives: 1 to 3 PEM blocks, or the Base64 of one alone, as identity
 * providers show it.
 *
 * @returns them as PEM, or a problem as a predicate: expired, or with a weak key
 */
export const readCertificates = (text: string, now: Date): { pem: string } | { problem: string } => {
  const isBare = !text.includes("-----") && /^[A-Za-z0-9+/=\s]+$/.test(text);
  const whole = isBare ? `-----BEGIN CERTIFICATE-----\n${text.trim()}\n-----END CERTIFICATE-----` : text;
  const blocks = whole.match(BLOCK) ?? [];
  if (blocks.length === 0 || whole.replaceAll(BLOCK, "").trim() !== "")
    return { problem: "must be certificates in PEM, and nothing else" };
  if (blocks.length > CERTIFICATES_MAX)
    return { problem: `must be at most ${CERTIFICATES_MAX} certificates` };
  let certificates: Parsed[];
  try {
    certificates = blocks.map(parsed);
  } catch {
    return { problem: "cannot be read as an X.509 certificate" };
  }
  for (const one of certificates) {
    const problem = problemOfOne(one, now);
    if (problem !== undefined) return { problem };
  }
  return { pem: certificates.map(({ pem }) => pem).join("") };
};

/** Returns the certificates of a stored text that are valid now, PEM: others verify nothing. */
export const validCertificates = (text: string, now: Date): string[] =>
  blocksOf(text)
    .filter(({ certificate: { validFromDate, validToDate } }) => validFromDate <= now && now < validToDate)
    .map(({ pem }) => pem);

/** Returns what the API shows of a stored text. */
export const showCertificates = (text: string): ShownCertificate[] =>
  blocksOf(text).map(({ certificate }) => ({
    fingerprint: certificate.fingerprint256.replaceAll(":", "").toLowerCase(),
    subject: certificate.subject.replaceAll("\n", ", "),
    notBefore: certificate.validFromDate.toISOString(),
    notAfter: certificate.validToDate.toISOString(),
  }));
