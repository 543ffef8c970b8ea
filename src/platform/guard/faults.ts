import { errors } from "undici";
import { NOT_PUBLIC } from "./url.ts";

/** Thrown for an address that requests may not go to. */
export class Refused extends Error {
  /** @param problem a predicate, as `UrlVerdict` has it */
  constructor(problem = NOT_PUBLIC) {
    super(`the address ${problem} (URL_NOT_ALLOWED)`);
  }
}

/** The cause of a failed exchange, worded for the endpoint's owner: it contains nothing of the request. */
export class Fault extends Error {}

const TEXTS: Readonly<Record<string, string>> = {
  ENOTFOUND: "the name could not be resolved: there is no such name",
  ENODATA: "the name could not be resolved: it has no address",
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was reset",
  EPIPE: "the connection was reset",
  ETIMEDOUT: "the host does not answer",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the host cannot be reached",
  UND_ERR_SOCKET: "the connection was closed before the answer was complete",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "the connection was closed before the answer was complete",
  UND_ERR_HEADERS_OVERFLOW: "the headers of the answer are too large",
  UND_ERR_INVALID_ARG: "the request cannot be written as HTTP",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is for another name",
  CERT_HAS_EXPIRED: "the certificate has expired",
  CERT_NOT_YET_VALID: "the certificate is not valid yet",
  CERT_REVOKED: "the certificate was revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the certificate comes from an authority that is not trusted",
  UNABLE_TO_GET_ISSUER_CERT: "the certificate comes from an authority that is not trusted",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    "the certificate comes from an authority that is not trusted, or an intermediate one is missing",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "the certificate comes from an authority that is not trusted, or an intermediate one is missing",
};
const TLS_CODE = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;

export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";

/**
 * Returns why an exchange failed. Messages of errors are not passed on: they may quote the request and its
 * address.
 */
export const faultText = (error: unknown): string => {
  if (error instanceof Refused || error instanceof Fault) return error.message;
  if (error instanceof errors.HTTPParserError) return "the answer is not HTTP/1.1";
  const code = codeOf(error);
  return TEXTS[code] ?? (TLS_CODE.test(code) ? "the TLS handshake failed" : "the connection failed");
};
