import { makePasskey } from "../api/client.ts";
import { Alert, Group, Text } from "@mantine/core";
import { useState } from "react";
import { change, readAccount, signOut, tellError, useAccount, useApi, useRead } from "../api/hooks.ts";
import { act, ask, form, OperationForm } from "../ui/operations.tsx";
import { Page, Section } from "../ui/page.tsx";
import { PlainTable, Rows } from "../ui/table.tsx";
import { AppSetup, RecoveryCodes } from "./factor.tsx";

export const AccountPage = () => {
  const { user } = useAccount();
  return (
    <Page
      title="Your account"
      about={user.email}
      actions={
        user.hasPassword &&
        form("changePassword", "Change the password", {
          about: "Your other sessions end.",
          submit: "Change",
        })
      }
    >
      <Section title="Who you are">
        <OperationForm
          id="updateAccount"
          initial={{ name: user.name }}
          first={["name"]}
          onDone={() => void readAccount()}
        />
        {user.pendingEmail && (
          <Alert color="yellow">{`${user.pendingEmail} waits for the link of its mail.`}</Alert>
        )}
      </Section>
      <Section title="Second factor">
        <SecondFactors />
      </Section>
      <Linked />
      <Sessions />
    </Page>
  );
};

const SecondFactors = () => {
  const { enabled, required, totp, passkeys, recoveryCodesLeft } = useRead("getSecondFactors");
  const { user } = useAccount();
  const [codes, setCodes] = useState<string[]>();
  const changed = ({ recoveryCodes }: { recoveryCodes?: string[] | undefined }) => {
    if (recoveryCodes) setCodes(recoveryCodes);
    void readAccount();
  };
  const addPasskey = (options: any) => {
    makePasskey(options)
      .then((credential) =>
        change("addPasskey", { body: { name: nameOfDevice(), credential } }, "The passkey is added"),
      )
      .then(changed)
      .catch(tellError);
  };
  const hidden = ["passkey"];
  if (!user.hasPassword) hidden.push("currentPassword");
  if (!enabled) hidden.push("code");
  const proven = { hidden, onDone: changed };
  return (
    <>
      {codes && <RecoveryCodes codes={codes} />}
      <Text>
        {enabled
          ? `It is on. ${recoveryCodesLeft} recovery codes are left.`
          : "A password alone protects your account. A second factor stops whoever has guessed or stolen it."}
      </Text>
      <Group>
        {"PublicKeyCredential" in window &&
          form("startPasskey", "Add a passkey", { ...proven, done: "", onDone: addPasskey })}
        {enabled && form("replaceRecoveryCodes", "New recovery codes", proven)}
        {totp && !required && form("disableTotp", "Switch the app off", proven)}
      </Group>
      <AppSetup
        begin="setUpTotp"
        enable="enableTotp"
        label={totp ? "Another app" : "Use an app"}
        {...proven}
      />
      {passkeys.length > 0 && (
        <PlainTable
          name="Passkeys"
          rows={passkeys}
          columns={{ Passkey: "name", Added: "createdAt", "Last used": "lastUsedAt" }}
          actions={({ id }) => form("removePasskey", "Remove", { path: { passkeyId: id }, ...proven })}
        />
      )}
    </>
  );
};

const nameOfDevice = (): string =>
  `Passkey on ${/Windows|Mac OS|Android|iPhone|iPad|Linux/.exec(navigator.userAgent)?.[0] ?? "this device"}`;

const Linked = () => {
  const providers = useApi("listOAuthProviders");
  const linked = useApi("listIdentities");
  const enabled = providers.data?.providers.filter((one) => one.enabled) ?? [];
  const emailAt = (id: string) => linked.data?.identities.find(({ provider }) => provider === id)?.email;
  if (enabled.length === 0) return null;
  return (
    <PlainTable
      section="Sign in with"
      rows={enabled}
      columns={{ Provider: "name", Account: ({ id }) => emailAt(id) }}
      actions={({ id, name }) =>
        emailAt(id) === undefined
          ? form("startOAuthLink", "Link", {
              path: { provider: id },
              initial: { redirect_uri: `${location.origin}/console/account`, response_mode: "code" },
              hidden: ["redirect_uri", "response_mode", "passkey"],
              submit: "Go on",
              done: "",
              onDone: ({ authUrl }) => location.assign(authUrl),
            })
          : ask("unlinkIdentity", "Unlink", {
              path: { provider: id } as never,
              of: name,
              done: "Not linked any more",
            })
      }
    />
  );
};

const Sessions = () => (
  <Rows
    section="Where you are signed in"
    beside={ask("logout", "Sign out everywhere", {
      body: { all: true },
      title: "Sign out everywhere?",
      onDone: () => void signOut(),
      text: "You sign in again here, too.",
    })}
    id="listSessions"
    given={{ query: { limit: 50 } }}
    columns={{
      Browser: ({ userAgent, current }) => (
        <Text maw={360} truncate>{`${current ? "This one: " : ""}${userAgent}`}</Text>
      ),
      Address: "ip",
      By: "method",
      "Last used": "lastUsedAt",
    }}
    wide={["By"]}
    actions={({ id, current }) => !current && act("revokeSession", "End", { path: { sessionId: id } })}
  />
);
