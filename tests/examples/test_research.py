"""The examples after published methods: short runs, each judged by the figure it ends with."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_convolutional_network(capsys: Any) -> None:
    assert load("convnet").main(epochs=3) > 0.95
    assert "epoch   3  loss" in capsys.readouterr().out


def test_transformer_comes_close_to_letter_pairs_in_200_steps(capsys: Any) -> None:
    held_out, pairs = load("transformer").main(steps=200)
    assert held_out < 2.75  # single letters have 3.27
    assert 2.3 < pairs < 2.5
    text = capsys.readouterr().out.splitlines()[-1]
    assert len(text) == 332
    assert 20 < text[32:].count(" ") < 100


def test_gaussian_process_agrees_with_scikit_learn(capsys: Any) -> None:
    difference, apart = load("gaussian_process").main()
    assert abs(difference) < 1e-5
    assert apart < 1e-2
    explained = capsys.readouterr().out.split()[-1]
    assert float(explained.rstrip("%")) > 40


def test_hamiltonian_monte_carlo_finds_the_exact_moments(capsys: Any) -> None:
    mean_error, deviation_error = load("hmc").main(chains=4, draws=1500)
    assert mean_error < 0.3
    assert deviation_error < 0.1
    accepted = capsys.readouterr().out.split("accepted ")[1].split("%")[0]
    assert float(accepted) > 90


def test_physics_informed_network(capsys: Any) -> None:
    assert load("physics_informed").main(steps=600) < 5e-3
    assert "mean square residual" in capsys.readouterr().out


def test_neural_differential_equation(capsys: Any) -> None:
    error, difference = load("neural_ode").main(steps=300)
    assert error < 1
    assert difference < 1e-3
    assert "steps a second" in capsys.readouterr().out


def test_learning_to_learn(capsys: Any) -> None:
    losses = load("maml").main(steps=3000)
    # One step of descent from the learned start helps, and five help more.
    assert losses[5] < losses[1] < 0.8 * losses[0]
    assert "loss after adaptation" in capsys.readouterr().out


def test_private_gradients(capsys: Any) -> None:
    accuracy, difference = load("private_gradients").main(steps=120)
    assert accuracy > 0.93
    assert difference < 1e-5
    assert "by jit(vmap(grad))" in capsys.readouterr().out


def test_equilibrium_layer(capsys: Any) -> None:
    accuracy, difference = load("equilibrium").main(epochs=10)
    assert accuracy > 0.95
    assert difference < 1e-6
    assert "epoch  10  loss" in capsys.readouterr().out


def test_deconvolution(capsys: Any) -> None:
    figures = load("deconvolution").main(steps=100)
    assert figures["total variation"] > figures["Wiener"] + 1 > figures["blurred"] + 2
    assert "@" in capsys.readouterr().out
