import { Alert, Button, PasswordInput, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation, useSearch } from "wouter";
import { call } from "../api/client.ts";
import { readAccount, signIn, signOut, useAccount, useApi } from "../api/hooks.ts";
import { words } from "../format.ts";
import { Read } from "../ui/page.tsx";
import { SmallForm } from "../ui/sending.tsx";
import { Card, OtherWays, PlainNote, To } from "./auth.tsx";

const NewPassword = ({ label = "Password", autoFocus = false }: { label?: string; autoFocus?: boolean }) => (
  <PasswordInput
    label={label}
    name="password"
    autoComplete="new-password"
    description="At least 8 characters, with an uppercase letter, a lowercase letter and a number"
    required
    autoFocus={autoFocus}
  />
);

export const Register = () => {
  const [, go] = useLocation();
  const captcha = useApi("getCaptcha");
  const register = async (body: any) => {
    await signIn(await call("register", { body }));
    go("/");
  };
  return (
    <Card title="Create an account">
      <PlainNote />
      {captcha.data && captcha.data.provider !== "none" && (
        <Alert color="yellow" title={`This server asks for a captcha (${captcha.data.provider})`}>
          The console shows none, as it loads nothing from other hosts: ask an owner of your team for an
          invitation.
        </Alert>
      )}
      <SmallForm submit="Create the account" onSubmit={register}>
        <TextInput label="Your name" name="name" autoComplete="name" required autoFocus />
        <TextInput label="Studio or company" name="tenantName" autoComplete="organization" required />
        <TextInput label="Email" name="email" type="email" autoComplete="username" required />
        <NewPassword />
      </SmallForm>
      <To to="/login">You have an account? Sign in</To>
      <OtherWays flow="signup" />
    </Card>
  );
};

export const Forgot = () => {
  const [isSent, setSent] = useState(false);
  const ask = async ({ email }: { email: string }) => {
    await call("forgotPassword", { body: { email } });
    setSent(true);
  };
  return (
    <Card title="Set a new password">
      {isSent ? (
        <Alert color="teal">If there is an account of this address, a mail with a link is on its way.</Alert>
      ) : (
        <SmallForm submit="Send me a link" onSubmit={ask}>
          <TextInput label="Email" name="email" type="email" required autoFocus />
        </SmallForm>
      )}
      <To to="/login">Back to signing in</To>
    </Card>
  );
};

const useToken = (): string => new URLSearchParams(useSearch()).get("token") ?? "";

export const Reset = () => {
  const token = useToken();
  const [isDone, setDone] = useState(false);
  const reset = async ({ password }: { password: string }) => {
    await call("resetPassword", { body: { token, password } });
    setDone(true);
  };
  return (
    <Card title="Choose a new password">
      {isDone ? (
        <>
          <Alert color="teal">Your password is set.</Alert>
          <To to="/login">Sign in</To>
        </>
      ) : (
        <SmallForm submit="Set the password" onSubmit={reset}>
          <NewPassword label="New password" autoFocus />
        </SmallForm>
      )}
    </Card>
  );
};

/** A click, not the opening of the page, proves the address: programs that look into mails open links. */
export const Verify = () => {
  const token = useToken();
  const [isDone, setDone] = useState(false);
  const verify = async () => {
    await call("verifyEmail", { body: { token } });
    setDone(true);
    await readAccount().catch(() => undefined);
  };
  return (
    <Card title="Verify your email address">
      {isDone ? (
        <>
          <Alert color="teal">Your address is verified.</Alert>
          <To to="/">To the console</To>
        </>
      ) : (
        <SmallForm submit="Verify my address" onSubmit={verify} />
      )}
    </Card>
  );
};

export const Accept = () => {
  const token = useToken();
  const [, go] = useLocation();
  const accept = async ({ name, password }: { name: string; password: string }) => {
    await signIn(await call("acceptInvitation", { body: { token, name, password } }));
    go("/");
  };
  return (
    <Card title="Join the team">
      <Read id="readInvitation" given={{ query: { token } }} lines={3}>
        {({ email, tenantName, role }) => (
          <>
            <Text>
              You are invited to <b>{tenantName}</b> as {words(role).toLowerCase()}, with the address {email}.
            </Text>
            <SmallForm submit="Join" onSubmit={accept}>
              <TextInput label="Your name" name="name" required autoFocus />
              <NewPassword />
            </SmallForm>
          </>
        )}
      </Read>
    </Card>
  );
};

export const CompleteProfile = () => {
  const { user } = useAccount();
  const complete = async ({ name, tenantName }: { name: string; tenantName?: string }) => {
    await call("completeProfile", { body: tenantName ? { name, tenantName } : { name } });
    await readAccount();
  };
  return (
    <Card title="Almost there">
      <SmallForm submit="Go on" onSubmit={complete}>
        <TextInput label="Your name" name="name" defaultValue={user.name} required autoFocus />
        {user.role === "OWNER" && <TextInput label="Studio or company" name="tenantName" />}
      </SmallForm>
      <Button variant="subtle" onClick={() => void signOut()}>
        Sign out
      </Button>
    </Card>
  );
};
