import { createRequire } from "node:module";

/** The part of samlify that tests use; its own types would bring those of browsers into every file. */
type Samlify = {
  setSchemaValidator(validator: { validate(xml: string): Promise<unknown> }): void;
  ServiceProvider(settings: { metadata: string }): ServiceProvider;
  IdentityProvider(settings: object): IdentityProvider;
  SamlLib: {
    constructSAMLSignature(options: {
      rawSamlMessage: string;
      referenceTagXPath?: string;
      isMessageSigned?: boolean;
      privateKey: string;
      signingCert: string;
      signatureAlgorithm: string;
      isBase64Output: false;
      signatureConfig: { prefix: string; location: { reference: string; action: "after" } };
    }): string;
  };
};
type ServiceProvider = {
  entityMeta: {
    getEntityID(): string;
    getAssertionConsumerService(binding: string): string;
    isWantAssertionsSigned(): boolean;
  };
};
type LoginRequest = {
  extract: { request: { id: string; assertionConsumerServiceUrl: string }; issuer: string };
};
type IdentityProvider = {
  parseLoginRequest(
    sp: ServiceProvider,
    binding: "redirect",
    request: { query: object },
  ): Promise<LoginRequest>;
  createLoginResponse(
    sp: ServiceProvider,
    request: LoginRequest,
    binding: "post",
    user: { email: string },
  ): Promise<{ context: string; entityEndpoint: string }>;
};

export const samlify = createRequire(import.meta.url)("samlify") as Samlify;
samlify.setSchemaValidator({ validate: async () => "not validated" });
