import type { RequestHandler, Response } from "express";
import type { DomainError } from "../../domain/kernel/errors.ts";
import { ScimError, type ScimType } from "../../domain/accounts/scim/filter.ts";
import type { Reply } from "../route.ts";

const ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error";
const MEDIA_TYPE = "application/scim+json; charset=utf-8";

/** Marks what is under the path of SCIM: errors there are the protocol's, whatever refuses the request. */
export const speakScim: RequestHandler = (_request, response, next) => {
  response.locals["isScim"] = true;
  next();
};

/** Returns the kind of an error, where the protocol has one for it. */
const typeOf = (error: DomainError): ScimType | undefined => {
  if (error instanceof ScimError) return error.scimType;
  if (error.reason === "MALFORMED_JSON") return "invalidSyntax";
  if (error.code === "VALIDATION_ERROR") return "invalidValue";
  const isTaken = error.reason === "ALREADY_EXISTS" || error.reason === "EMAIL_ALREADY_EXISTS";
  return isTaken ? "uniqueness" : undefined;
};

/** Answers with the error body of RFC 7644, 3.12: clients of SCIM read no other. */
export const sendScimError = (response: Response, error: DomainError): void => {
  const scimType = typeOf(error);
  response.set("Content-Type", MEDIA_TYPE).status(error.status);
  // As JSON.stringify leaves it out where it is undefined.
  const body = { schemas: [ERROR_SCHEMA], status: String(error.status), scimType, detail: error.message };
  response.send(JSON.stringify(body));
};

const hasVersion = (response: Response, version: string): boolean => {
  const { method, headers } = response.req;
  const known = headers["if-none-match"];
  if (known === undefined || (method !== "GET" && method !== "HEAD")) return false;
  const tags = known.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes("*") || tags.includes(version.replace(/^W\//, ""));
};

/** Sends a resource, 304 to who has its version, a list, or nothing with 204. */
export const sendScim = (response: Response, { status, body, headers }: Reply<unknown>): void => {
  response.status(status).set(headers);
  if (body === undefined) return void response.status(204).end();
  const version = headers["ETag"];
  if (version !== undefined && hasVersion(response, version)) return void response.status(304).end();
  response.set("Content-Type", MEDIA_TYPE).send(JSON.stringify(body));
};
