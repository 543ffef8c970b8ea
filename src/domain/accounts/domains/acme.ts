/** The key by which a certificate authority knows this server, and what it calls the account, once known. */
export type AcmeAccount = { keyPem: string; url: string | undefined };

export type IssueRequest = {
  domain: string;
  account: AcmeAccount;
  /** Makes every web process answer a challenge. */
  publish(challenge: { token: string; answer: string }): Promise<void>;
  /** Ends the wait for the authority, as when this process stops. */
  signal?: AbortSignal | undefined;
};

/** A certificate with those above it, and its private key, PEM. */
export type Issued = {
  accountUrl: string;
  chainPem: string;
  keyPem: string;
  issuer: string;
  notBefore: Date;
  notAfter: Date;
};

/** A failure that is told to the domain's owner in these words. */
export class AcmeFailure extends Error {}

/** Speaks to the certificate authority of this server. */
export type Acme = {
  directoryUrl: string;
  newAccountKey(): Promise<string>;
  /** Orders a certificate, within minutes. Not to be called in a transaction. @throws AcmeFailure */
  issue(request: IssueRequest): Promise<Issued>;
};
