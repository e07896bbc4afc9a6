"""Names of credentials, in every spelling that imports and forms have met."""

from __future__ import annotations

import pytest

from onetool_ipy.base.credentials import is_secret_name

CREDENTIALS = """
    X-Api-Key apikey access_token Authorization GITHUB_TOKEN clientSecret password X-Auth-Token key Cookie
    userPassword PIN pin_code cvv otp db_pass DB_PASSWD AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY X-CSRF-Token appid
    GITHUB_PAT OPENAI_KEY private-key card.number security_code --api-key jwt sig_signature password2 token1
    NPMTOKEN MYSECRET
    passwords apiKeys API_KEYS secrets access_tokens refreshTokens credentials cookies auth_tokens pins
    PassWord pAsSwOrD tOkEn ToKeN_VaLuE SeCrEt aPiKeY
    Passwort Passwörter KENNWORT contraseña contraseñas mot_de_passe motDePasse mots_de_passe senha clave wachtwoord
    lösenord hasło şifre пароль пароли токен api_ключ 密码 密碼 登录密码 パスワード 비밀번호 סיסמה كلمة_المرور पासवर्ड
    รหัสผ่าน ｐａｓｓｗｏｒｄ
"""
OTHERS = """
    keyword monkey author authors X-Request-Id tokens_used page keys passenger token_type max_tokens maxTokens
    prompt_tokens spin shipping secretary pinned sort_key primaryKey project_key page_token nextPageToken
    token_url key_type auth_method compass opinion spine tokenizer turkey hockey pattern patch ссылка 名前 n
"""
HIDDEN = ["pass\u200bword", "to\u00adken", "se\u2060cret", "\u202epassword", "api key"]


@pytest.mark.parametrize("name", [*CREDENTIALS.split(), *HIDDEN])
def test_a_credential_is_recognised_by_its_name(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", [*OTHERS.split(), "", "_", "\u200b", "a" * 100_000])
def test_another_name_is_not_a_credential(name: str) -> None:
    assert not is_secret_name(name)
